/** What can be done to an execution as it stands. What ends something asks first, and says what it does. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Execution, taken } from "../api/client";
import { Ask } from "../design/Ask";
import { Button } from "../design/Button";
import { Refusal } from "../design/States";
import { isEnded } from "../design/Status";
import { useMyName } from "../design/settings";

type Verb = "pause" | "resume" | "cancel" | "send";

export function Actions({ view }: { view: Execution }) {
  const client = useQueryClient();
  const [name] = useMyName();
  const [asking, ask] = useState<"cancel" | "send" | null>(null);
  const act = useMutation({
    mutationFn: ({ verb, text }: { verb: Verb; text: string }) => tell(view.id, verb, text, name),
    onSuccess: () => ask(null),
    onSettled: () => void client.invalidateQueries({ queryKey: ["execution", view.id] }),
  });
  if (isEnded(view.state)) return null;
  const halted = view.state === "paused" || view.state === "stuck";
  const leaving = view.state === "cancelling";
  const busy = (verb: Verb): boolean => act.isPending && act.variables.verb === verb;
  return (
    <div className="flex flex-col items-end gap-2">
      <div className="flex flex-wrap gap-2">
        {view.model ? (
          <Button icon="send" disabled={leaving} onClick={() => ask("send")}>
            Send
          </Button>
        ) : null}
        {halted ? (
          <Button icon="play" busy={busy("resume")} onClick={() => act.mutate({ verb: "resume", text: "" })}>
            Resume
          </Button>
        ) : (
          <Button icon="pause" disabled={leaving} busy={busy("pause")} onClick={() => act.mutate({ verb: "pause", text: "" })}>
            Pause
          </Button>
        )}
        <Button icon="ban" look="danger" disabled={leaving} onClick={() => ask("cancel")}>
          Cancel
        </Button>
      </div>
      {asking === null ? <Refusal error={act.error} /> : null}
      <Ask
        open={asking === "cancel"}
        title="Cancel this execution?"
        about="What has begun may still report; nothing new is begun, and it cannot be resumed."
        field="Why (kept in its log)"
        verb="Cancel it"
        danger
        busy={act.isPending}
        error={act.error}
        close={() => ask(null)}
        done={(text) => act.mutate({ verb: "cancel", text })}
      />
      <Ask
        open={asking === "send"}
        title="Send a message"
        about="The model reads it before its next turn."
        field="Message"
        verb="Send"
        needed
        busy={act.isPending}
        error={act.error}
        close={() => ask(null)}
        done={(text) => act.mutate({ verb: "send", text })}
      />
    </div>
  );
}

function tell(execution: string, verb: Verb, text: string, by: string): Promise<unknown> {
  const params = { path: { execution } };
  switch (verb) {
    case "pause":
      return taken(api.POST("/v1/executions/{execution}/pause", { params, body: { by, reason: text } }));
    case "resume":
      return taken(api.POST("/v1/executions/{execution}/resume", { params, body: { by, reason: text } }));
    case "cancel":
      return taken(api.POST("/v1/executions/{execution}/cancel", { params, body: { by, reason: text } }));
    case "send":
      return taken(api.POST("/v1/executions/{execution}/messages", { params, body: { text, by, dedupe: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` } }));
  }
}
