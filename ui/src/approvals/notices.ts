/**
 * Notifications of the system about decisions that are asked for while nobody looks. One each, whatever tabs there are:
 * the tab that has the event stream shows them. They name the agent and the tool, and not what it would be called with.
 */

import { useCallback, useEffect, useState } from "react";
import { useLocation } from "wouter";
import type { Approval } from "../api/client";
import { live } from "../api/live";
import { lookedAt } from "../api/looking";
import { useKept } from "../design/settings";
import { plain } from "../text/hostile";
import { shown, unseen } from "./unseen";

/** So many at once; of more than that it is said how many there are. */
const MOST = 3;

export type Notices = "none" | "blocked" | "off" | "on";

/** Whether this browser shows them, and what turns them on and off. It is asked for only when somebody turns them on. */
export function useNotices(): [Notices, (on: boolean) => void] {
  const [wanted, want] = useKept("notices");
  const [allowed, allow] = useState<NotificationPermission | "none">(() => ("Notification" in globalThis && isSecureContext ? Notification.permission : "none"));
  const turn = (on: boolean): void => {
    if (!on || allowed === "granted") want(on ? "on" : "");
    else {
      void Notification.requestPermission().then((answer) => {
        allow(answer);
        want(answer === "granted" ? "on" : "");
      });
    }
  };
  if (allowed === "none") return ["none", turn];
  if (allowed === "denied") return ["blocked", turn];
  return [wanted === "on" && allowed === "granted" ? "on" : "off", turn];
}

/** Show one for each decision that is asked for while no tab of this browser is looked at. */
export function useTelling(open: readonly Approval[] | undefined): void {
  const [notices] = useNotices();
  const [told, keep] = useKept("told-approvals");
  const [, go] = useLocation();
  const tell = useCallback(
    async (fresh: readonly Approval[]): Promise<void> => {
      if (await lookedAt()) return; // the number beside Approvals says it
      const rest = fresh.length - MOST;
      for (const one of rest > 0 ? [] : fresh) show(asked(one), one.id, () => go(`/approvals/${one.id}`));
      if (rest > 0) show(`${fresh.length} decisions are asked for`, "perdure-approvals", () => go("/approvals"));
    },
    [go],
  );
  useEffect(() => {
    if (notices !== "on" || open === undefined || !live.leads) return;
    const fresh = unseen(open, told);
    if (fresh.length === 0) return;
    keep(shown(fresh, told)); // before anything is awaited: what is told twice is an annoyance
    void tell(fresh);
  });
}

function asked(one: Approval): string {
  const who = one.tool.startsWith("room.") ? String(one.args["by"] ?? one.agent) : one.agent;
  return plain(one.tool.startsWith("room.") ? `${who} wants to act in a room` : `${who} wants to call ${one.tool}`).slice(0, 120);
}

function show(title: string, tag: string, open: () => void): void {
  try {
    const notice = new Notification(title, { tag, body: "A person has to decide.", icon: "/icon.svg" });
    notice.onclick = () => {
      focus();
      open();
      notice.close();
    };
  } catch {
    // A browser that shows them only from a service worker, as on phones: the number in the title is what there is.
  }
}
