/** What stands around every page: where one can go, how many decisions wait, and whether the server is there. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, type Schemas, taken } from "../api/client";
import { live } from "../api/live";
import { lookOn } from "../api/looking";
import type { State } from "../api/stream";
import { Drop } from "../design/Drop";
import { Icon, type IconName } from "../design/icons";
import { useDensity, useKept, useTheme, useZone } from "../design/settings";
import { useTelling } from "../approvals/notices";
import { titled, unseen } from "../approvals/unseen";

const PAGES: readonly { readonly href: string; readonly icon: IconName; readonly label: string }[] = [
  { href: "/executions", icon: "list", label: "Executions" },
  { href: "/approvals", icon: "hand", label: "Approvals" },
  { href: "/workers", icon: "stack", label: "Workers" },
  { href: "/agents", icon: "agent", label: "Agents" },
  { href: "/schedules", icon: "calendar", label: "Schedules" },
  { href: "/rooms", icon: "room", label: "Rooms" },
  { href: "/settings", icon: "gear", label: "Settings" },
];

export function Shell({ session, children }: { session: Schemas["SessionView"]; children: ReactNode }) {
  const waiting = useWaiting();
  return (
    <div className="flex h-dvh flex-col">
      <a href="#page" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-card focus:p-2">
        Skip to the page
      </a>
      <header className="flex items-center gap-1 border-b border-line bg-card px-4 py-2 max-sm:px-3">
        <Link href="/executions" className="mr-3 flex items-center gap-2 text-lg font-semibold tracking-tight">
          <img src="/icon.svg" alt="" width="24" height="24" /> <span className="max-sm:sr-only">Perdure</span>
        </Link>
        <nav aria-label="Pages">
          <div className="flex gap-0.5 max-lg:hidden">
            {PAGES.map((one) => (
              <Page key={one.href} {...one} badge={one.href === "/approvals" ? <Badge {...waiting} /> : null} />
            ))}
          </div>
          <Drop className="lg:hidden" side="left" label="Pages" summary={<Here waiting={waiting} />}>
            {PAGES.map((one) => (
              <Page key={one.href} {...one} badge={one.href === "/approvals" ? <Badge {...waiting} /> : null} />
            ))}
          </Drop>
        </nav>
        <div className="ml-auto flex items-center gap-0.5">
          <Connection />
          <Browser session={session} />
        </div>
      </header>
      <Away />
      <main id="page" className="mx-auto flex min-h-0 w-full max-w-[90rem] flex-1 flex-col overflow-auto px-6 py-5 max-sm:px-3 max-sm:py-3">
        {children}
      </main>
    </div>
  );
}

function Page({ href, icon, label, badge }: { href: string; icon: IconName; label: string; badge?: ReactNode }) {
  const [place] = useLocation();
  const here = place.startsWith(href);
  return (
    <Link
      href={href}
      aria-current={here ? "page" : undefined}
      className={`flex min-h-9 items-center gap-2 rounded-md px-2.5 text-sm font-medium ${here ? "bg-sunken text-ink" : "text-quiet hover:bg-hover hover:text-ink"}`}
    >
      <Icon name={icon} /> {label} {badge}
    </Link>
  );
}

/** Which page this is, where there is no room to name them all. */
function Here({ waiting }: { waiting: Waiting }) {
  const [place] = useLocation();
  const here = PAGES.find((one) => place.startsWith(one.href));
  return (
    <>
      <Icon name="menu" /> <span className="text-ink">{here?.label ?? "Pages"}</span>
      <Badge {...waiting} />
    </>
  );
}

/** How many decisions are waited for, and how many of them this browser has not shown yet. */
type Waiting = { readonly open: number; readonly fresh: number };

/** Told beside the page's name, and what is new also by the tab's title and icon, for whoever looks elsewhere. */
function useWaiting(): Waiting {
  const client = useQueryClient();
  const open = useQuery({ queryKey: ["approvals", "open"], queryFn: ({ signal }) => taken(api.GET("/v1/approvals", { signal })) });
  useEffect(
    () =>
      live.listen((message) => {
        if (message.kind === "approvals" || message.kind === "ready") void client.invalidateQueries({ queryKey: ["approvals"] });
      }),
    [client],
  );
  const [seen] = useKept("seen-approvals");
  const items = open.data?.items;
  const fresh = unseen(items ?? [], seen).length;
  useTelling(items);
  useEffect(lookOn, []);
  useEffect(() => {
    document.title = titled(fresh);
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (icon) icon.href = fresh > 0 ? "/icon-waiting.svg" : "/icon.svg";
  }, [fresh]);
  return { open: items?.length ?? 0, fresh };
}

function Badge({ open, fresh }: Waiting) {
  if (open === 0) return null;
  return (
    <span className={`rounded-full border px-1.5 text-xs font-semibold tabular-nums ${fresh > 0 ? "border-transparent bg-accent-fill text-on-accent" : "border-edge text-quiet"}`}>
      {fresh > 0 ? fresh : open}
      <span className="sr-only">{fresh > 0 ? ` new, ${open} waiting` : " waiting"}</span>
    </span>
  );
}

function useLive(): State {
  const [state, setState] = useState(live.state);
  useEffect(() => {
    setState(live.state);
    return live.listen((message) => message.kind === "state" && setState(message.state));
  }, []);
  return state;
}

function Connection() {
  const state = useLive();
  const known = { live: ["tone-good", "Live"], connecting: ["tone-off", "Connecting"], away: ["tone-bad", "Away"], "signed-out": ["tone-bad", "Signed out"] } as const;
  const [tone, word] = known[state];
  return (
    <span className={`${tone} mr-1 flex items-center gap-1.5 text-xs text-quiet max-sm:sr-only`}>
      <span aria-hidden="true" className="size-2 rounded-full bg-(--tone)" /> {word}
    </span>
  );
}

/** Says that what is shown may be old, and that nobody need do anything about it. */
function Away() {
  const state = useLive();
  const client = useQueryClient();
  useEffect(() => live.listen((message) => message.kind === "ready" && void client.invalidateQueries()), [client]);
  return (
    <div role="status" aria-live="polite">
      {state === "away" ? (
        <p className="toned tone-wait flex items-center justify-center gap-2 border-x-0 px-4 py-2 text-sm">
          <Icon name="cloud" /> The server is away. What you see is from before; this page goes on by itself when it is back, and nothing is lost.
        </p>
      ) : null}
    </div>
  );
}

const THEMES = ["", "light", "dark"] as const;

function Browser({ session }: { session: Schemas["SessionView"] }) {
  const [theme, setTheme] = useTheme();
  const [density, setDensity] = useDensity();
  const [zone, setZone] = useZone();
  const next = THEMES[(THEMES.findIndex((one) => one === theme) + 1) % THEMES.length] ?? "";
  const leave = async (): Promise<void> => {
    await api.DELETE("/v1/session");
    location.assign("/login");
  };
  return (
    <Drop side="right" label="This browser" summary={<Icon name="user" />}>
      <p className="px-2 py-1 text-quiet">
        {session.by === "nothing" ? "This server asks for no key." : `Signed in with the key ${session.name}.`}
      </p>
      <Choice label="Look" value={theme === "" ? "as the system" : theme} onClick={() => setTheme(next)} />
      <Choice label="Rows" value={density === "dense" ? "dense" : "roomy"} onClick={() => setDensity(density === "dense" ? "" : "dense")} />
      <Choice label="Times in" value={zone === "utc" ? "UTC" : "local time"} onClick={() => setZone(zone === "utc" ? "local" : "utc")} />
      <Link href="/demo" className="flex min-h-9 items-center rounded-md px-2 hover:bg-hover">
        Crash demo
      </Link>
      {session.by === "session" ? <Choice label="Sign out" value="" onClick={() => void leave()} /> : null}
    </Drop>
  );
}

function Choice({ label, value, onClick }: { label: string; value: string; onClick: () => void }) {
  return (
    <button type="button" onClick={onClick} className="flex min-h-9 items-center justify-between rounded-md px-2 text-left hover:bg-hover">
      <span>{label}</span> <span className="text-quiet">{value}</span>
    </button>
  );
}

