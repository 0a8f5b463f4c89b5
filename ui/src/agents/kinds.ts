import type { Agent } from "./data";

export const KINDS: Record<Agent["kind"], string> = { agent: "agent", function: "durable function", room: "agent in rooms" };
