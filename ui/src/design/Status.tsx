/** How a state is told: a picture, a word and a colour, always all three. */

import type { ExecutionState } from "../api/client";
import { Icon, type IconName } from "./icons";

type Look = { readonly word: string; readonly icon: IconName; readonly tone: Tone; readonly turns?: boolean };
export type Tone = "run" | "wait" | "good" | "bad" | "hold" | "off";

/** All states of an execution, in the order of its life. A state that the server adds does not compile here. */
export const EXECUTION: Record<ExecutionState, Look> = {
  ready: { word: "Ready", icon: "clock", tone: "run" },
  running: { word: "Running", icon: "spinner", tone: "run", turns: true },
  waiting: { word: "Waiting", icon: "clock", tone: "wait" },
  paused: { word: "Paused", icon: "pause", tone: "hold" },
  stuck: { word: "Stuck", icon: "alert", tone: "bad" },
  cancelling: { word: "Cancelling", icon: "ban", tone: "off", turns: false },
  completed: { word: "Completed", icon: "check", tone: "good" },
  failed: { word: "Failed", icon: "close", tone: "bad" },
  cancelled: { word: "Cancelled", icon: "ban", tone: "off" },
};

export const STATES = Object.keys(EXECUTION) as ExecutionState[];

const STEP: Record<string, Look> = {
  asked: { word: "Needs a decision", icon: "hand", tone: "wait" },
  queued: { word: "In its queue", icon: "clock", tone: "wait" },
  ready: { word: "In its queue", icon: "clock", tone: "wait" },
  waiting: { word: "Not begun", icon: "clock", tone: "wait" },
  leased: { word: "Running", icon: "spinner", tone: "run", turns: true },
  running: { word: "Running", icon: "spinner", tone: "run", turns: true },
  begun: { word: "Begun", icon: "spinner", tone: "run", turns: true },
  done: { word: "Done", icon: "check", tone: "good" },
  dead: { word: "Failed", icon: "close", tone: "bad" },
  refused: { word: "Not called", icon: "ban", tone: "off" },
  uncertain: { word: "Outcome unknown", icon: "question", tone: "hold" },
  contradicted: { word: "Contradicted", icon: "alert", tone: "bad" },
  simulated: { word: "Simulated", icon: "spark", tone: "off" },
  replied: { word: "Replied", icon: "check", tone: "good" },
  retry_later: { word: "Asked to wait", icon: "clock", tone: "wait" },
  refused_call: { word: "Refused", icon: "close", tone: "bad" },
  open: { word: "Open", icon: "hand", tone: "wait" },
  resolved: { word: "Decided", icon: "check", tone: "good" },
  expired: { word: "Expired", icon: "clock", tone: "off" },
  cancelled: { word: "Withdrawn", icon: "ban", tone: "off" },
};

export function isEnded(state: string): boolean {
  return state === "completed" || state === "failed" || state === "cancelled";
}

export function Status({ state, of = "execution", small = false }: { state: string; of?: "execution" | "step"; small?: boolean }) {
  const known = of === "execution" ? EXECUTION[state as ExecutionState] : STEP[state];
  const look: Look = known ?? { word: state, icon: "question", tone: "off" };
  return (
    <span
      className={`toned tone-${look.tone} inline-flex items-center gap-1.5 rounded-full font-medium whitespace-nowrap ${
        small ? "px-2 py-px text-xs" : "px-2.5 py-0.5 text-sm"
      }`}
    >
      <Icon name={look.icon} size={small ? 12 : 14} className={look.turns ? "turning" : ""} />
      {look.word}
    </span>
  );
}
