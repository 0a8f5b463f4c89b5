/** What can be done to the executions that are chosen or, while none is, to all that pass the filter. */

import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import type { Schemas, Summary } from "../api/client";
import { jsonl } from "../api/many";
import { Button } from "../design/Button";
import { Many } from "../design/Many";
import { useMyName } from "../design/settings";
import { saved } from "../text/save";
import { count, plural } from "../text/time";
import { all, cancel, type Failed, failed, goingOn, type Meant, MOST, tryAgain, whole } from "./bulk";
import { told } from "./filter";

export function Bulk(meant: Meant) {
  const [doing, go] = useState<"cancel" | "retry" | "export" | null>(null);
  const some = meant.chosen.length > 0;
  const back = (): void => go(null);
  return (
    <div role="group" aria-label={some ? "For those that are chosen" : "For all that pass the filter"} className="flex flex-wrap gap-2">
      <Button icon="ban" onClick={() => go("cancel")}>
        Cancel{some ? "" : " all"}
      </Button>
      <Button icon="retry" onClick={() => go("retry")}>
        Retry{some ? "" : " all"}
      </Button>
      <Button icon="download" onClick={() => go("export")}>
        Export{some ? "" : " all"}
      </Button>
      {doing === "cancel" ? <Cancel {...meant} close={back} /> : null}
      {doing === "retry" ? <Retry {...meant} close={back} /> : null}
      {doing === "export" ? <Export {...meant} close={back} /> : null}
    </div>
  );
}

type Props = Meant & { close: () => void };

function which({ filter, chosen }: Meant): string {
  return chosen.length > 0 ? "Of those that you chose." : `Of all executions ${told(filter)}.`;
}

function Cancel({ close, ...meant }: Props) {
  const [name] = useMyName();
  const client = useQueryClient();
  return (
    <Many<Summary>
      open
      title="Cancel executions"
      find={(signal, found) => goingOn(meant, signal, found)}
      ask={(items) => ({
        title: items.length === 0 ? "None of them goes on" : `Cancel ${plural(items.length, "execution")}?`,
        about: items.length === 0 ? "What has ended, or is being cancelled, stays as it is." : `${which(meant)} What has begun may still report; nothing new is begun, and they cannot be resumed. Each is asked for by itself.${capped(items.length)}`,
        verb: `Cancel ${items.length === 1 ? "it" : "them"}`,
      })}
      field="Why (kept in each log)"
      danger
      act={(one, reason) => cancel(one.id, name, reason)}
      past="cancelled"
      ended={() => void client.invalidateQueries({ queryKey: ["executions"] })}
      close={close}
    />
  );
}

function Retry({ close, ...meant }: Props) {
  const [name] = useMyName();
  const client = useQueryClient();
  const about = (items: readonly Failed[]): string => {
    const stuck = items.filter((one) => one.address === null).length;
    const calls = items.length - stuck;
    const parts = [calls > 0 ? `${plural(calls, "call")} that failed for good ${calls === 1 ? "goes back on its queue" : "go back on their queues"}, with all tries anew` : "", stuck > 0 ? `${plural(stuck, "execution")} that ${stuck === 1 ? "is" : "are"} stuck ${stuck === 1 ? "goes" : "go"} on` : ""];
    return `${which(meant)} ${parts.filter(Boolean).join("; ")}. What their models were told stays told.${capped(items.length)}`;
  };
  return (
    <Many<Failed>
      open
      title="Try again"
      find={(signal, found) => failed(meant, signal, found)}
      ask={(items) =>
        items.length === 0
          ? { title: "Nothing to try again", about: `${which(meant)} No call has failed for good in one that goes on, and none is stuck. What has ended stays so: fork it to go on from a step of it.`, verb: "" }
          : { title: "Try again?", about: about(items), verb: "Try again" }
      }
      field="Why (kept in each log)"
      act={(one, reason) => tryAgain(one, name, reason)}
      past="put back"
      ended={() => void client.invalidateQueries({ queryKey: ["executions"] })}
      close={close}
    />
  );
}

function Export({ close, ...meant }: Props) {
  const found = useRef<readonly Summary[]>([]);
  const views = useRef(new Map<string, Schemas["ExecutionView"]>());
  return (
    <Many<Summary>
      open
      title="Export executions"
      find={async (signal, told) => {
        found.current = meant.chosen.length > 0 ? meant.chosen : await all(meant.filter, signal, told);
        return found.current;
      }}
      ask={(items) => ({
        title: items.length === 0 ? "There is none to export" : `Export ${plural(items.length, "execution")}?`,
        about: items.length === 0 ? which(meant) : `${which(meant)} As a file of JSON lines: each is one execution as the API shows it, with input, output, usage and cost.${capped(items.length)}`,
        verb: "Export",
      })}
      act={async (one, _reason, signal) => views.current.set(one.id, await whole(one.id, signal))}
      past="exported"
      ended={() => {
        const lines = found.current.flatMap((one) => views.current.get(one.id) ?? []);
        if (lines.length > 0) saved(jsonl(lines), "executions.jsonl", "application/jsonl");
      }}
      close={close}
    />
  );
}

function capped(n: number): string {
  return n >= MOST ? ` At most ${count(MOST)} at once, the newest: do the same again for more.` : "";
}
