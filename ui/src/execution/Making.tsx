/** What the model is saying just now: text that is not recorded yet, and may still be replaced. */

import { useEffect, useState } from "react";
import type { Execution } from "../api/client";
import { live } from "../api/live";
import { Icon } from "../design/icons";
import { type Reply, Replies } from "../log/replies";
import type { Story } from "../log/story";
import { Markdown } from "../text/Markdown";

/** Pieces come many times a second; nobody reads faster than this is drawn. */
const SETTLE_MS = 60;

type Shown = { readonly replies: readonly Reply[]; readonly elsewhere: boolean };
const NOTHING: Shown = { replies: [], elsewhere: false };

function useReplies(execution: string): Shown {
  const [shown, show] = useState(NOTHING);
  useEffect(() => {
    const replies = new Replies(execution);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live.listen((message) => {
      if (!replies.take(message)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        show({ replies: replies.all(), elsewhere: replies.elsewhere });
      }, SETTLE_MS);
    });
    live.retell(execution);
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [execution]);
  return shown;
}

/** The last entries of a conversation, while it goes on. */
export function Making({ view, story }: { view: Execution; story: Story }) {
  const { replies, elsewhere } = useReplies(view.id);
  const recorded = new Set(story.entries.flatMap((one) => (one.kind === "model" ? [one.address] : [])));
  const coming = replies.filter((one) => !recorded.has(one.address) && one.text !== "");
  if (view.state !== "running" && view.state !== "ready" && coming.length === 0) return null;
  if (coming.length > 0) return coming.map((one) => <Saying key={one.address} reply={one} />);
  const word = view.waits.length > 0 ? "Working" : elsewhere ? "The model is answering; it is heard at another server" : "The model is thinking";
  return (
    <li className="flex items-center gap-2 pl-10 text-quiet" role="status">
      <Icon name="spinner" className="turning" /> {word} …
    </li>
  );
}

function Saying({ reply }: { reply: Reply }) {
  const turn = /^turn (\d+)\//.exec(reply.address)?.[1];
  return (
    <li aria-live="off" aria-busy="true" data-saying={reply.attempt}>
      <article className="flex flex-col gap-2">
        <div className="flex flex-wrap items-center gap-2.5">
          <span className="toned tone-run flex size-7 items-center justify-center rounded-full">
            <Icon name="spinner" size={15} className="turning" />
          </span>
          <span className="font-semibold">Model{turn ? `, turn ${turn}` : ""}</span>
          <span className="text-sm text-faint">{reply.attempt > 1 ? `attempt ${reply.attempt}, ` : ""}not recorded yet</span>
        </div>
        <div className="card ml-9.5 p-3 max-sm:ml-0">
          <Markdown text={reply.text} label={`turn ${turn ?? ""}, so far`} />
        </div>
      </article>
    </li>
  );
}
