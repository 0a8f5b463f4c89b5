/** What somebody chose for this browser. Kept here, never on the server. */

import { useSyncExternalStore } from "react";
import type { Zone } from "../text/time";

const listeners = new Set<() => void>();

addEventListener("storage", (event) => {
  if (event.key?.startsWith("perdure.")) show(event.key.slice("perdure.".length), event.newValue ?? "");
});

function kept(name: string): string {
  try {
    return localStorage.getItem(`perdure.${name}`) ?? "";
  } catch {
    return "";
  }
}

function keep(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(`perdure.${name}`, value);
    else localStorage.removeItem(`perdure.${name}`);
  } catch {
    // No storage in this browser: it counts for this page only.
  }
  show(name, value);
}

/** Have a setting hold here, whichever tab it was made in. */
function show(name: string, value: string): void {
  if (name === "theme" || name === "density") {
    if (value) document.documentElement.dataset[name] = value;
    else delete document.documentElement.dataset[name];
  }
  for (const one of listeners) one();
}

function useSetting(name: string): [string, (value: string) => void] {
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  return [useSyncExternalStore(subscribe, () => kept(name)), (value) => keep(name, value)];
}

export function useZone(): [Zone, (zone: Zone) => void] {
  const [zone, set] = useSetting("zone");
  return [zone === "utc" ? "utc" : "local", set];
}

/** Empty: as the system has it. */
export function useTheme(): [string, (theme: string) => void] {
  return useSetting("theme");
}

export function useDensity(): [string, (density: string) => void] {
  return useSetting("density");
}

/** Anything else that is kept under a name of its own; empty: nothing was. */
export function useKept(name: string): [string, (value: string) => void] {
  return useSetting(name);
}

/** Whether a media query holds, now and when it changes. */
export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => matchMedia(query).matches,
  );
}

/** In whose name this browser decides, where the key speaks for several people. */
export function useMyName(): [string, (name: string) => void] {
  return useSetting("name");
}
