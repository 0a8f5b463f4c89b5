/** What was said, in threads, and what one says oneself. */

import { type FormEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { api, taken } from "../api/client";
import { Button } from "../design/Button";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { Plain } from "../text/Text";
import { type Message, type Room, useHeld, useWriting } from "./data";
import { More } from "./More";
import { addresses, type Thread, threads } from "./stories";
import { Author, Words } from "./Whose";

export function Talk({ room }: { room: Room }) {
  const found = useHeld(room, "messages");
  const [answering, answer] = useState<Message | null>(null);
  const end = useRef<HTMLDivElement>(null);
  const last = found.items.at(-1)?.id;
  const before = useRef(last);
  useEffect(() => {
    // What is new is brought into view, and not what was there when one came. It returns a promise in newer browsers.
    if (before.current !== undefined && last !== before.current) void end.current?.scrollIntoView({ block: "nearest" });
    before.current = last;
  }, [last]);
  return (
    <div className="flex flex-col gap-3">
      <section aria-label="Messages" className="card">
        {found.isPending ? (
          <Loading what="messages" />
        ) : found.data === undefined ? (
          <Failed error={found.error} again={() => void found.refetch()} />
        ) : (
          <>
            <More of={found} />
            {found.items.length === 0 ? (
              <Empty icon="room" title={found.hasNextPage ? "No message lately" : "Nobody has said anything yet"} />
            ) : (
              <ol className="divide-y divide-line">
                {threads(found.items).map((one) => (
                  <One key={one.root.id} thread={one} answer={answer} />
                ))}
              </ol>
            )}
          </>
        )}
        <div ref={end} />
      </section>
      <Say room={room} answering={answering} done={() => answer(null)} />
    </div>
  );
}

function One({ thread: { root, replies }, answer }: { thread: Thread; answer: (message: Message) => void }) {
  return (
    <li id={root.id} className="flex flex-col gap-3 px-4 py-3">
      <Said message={root} />
      {replies.length > 0 ? (
        <ol aria-label="Replies" className="ml-3 flex flex-col gap-3 border-l border-line pl-4">
          {replies.map((one) => (
            <li key={one.id} id={one.id}>
              <Said message={one} />
            </li>
          ))}
        </ol>
      ) : null}
      <div className="-ml-3">
        <Button look="bare" icon="reply" onClick={() => answer(root)} aria-label={`Answer ${root.author}`}>
          Answer
        </Button>
      </div>
    </li>
  );
}

function Said({ message }: { message: Message }) {
  return (
    <article aria-label={`${message.author} of ${message.company}`} data-company={message.company} className="flex flex-col gap-1">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
        <Author company={message.company} author={message.author} kind={message.kind} steered={message.steered_by} />
        {message.to.length > 0 ? (
          <span className="text-quiet">
            to <Plain text={message.to.join(", ")} />
          </span>
        ) : null}
        <span className="text-faint">
          <Ago atMs={message.at_ms} />
        </span>
      </header>
      <Words company={message.company} text={message.text} label={`the message of ${message.author}`} />
    </article>
  );
}

/** Agents that are named are woken. Enter with Ctrl or Command sends. */
function Say({ room, answering, done }: { room: Room; answering: Message | null; done: () => void }) {
  const [text, type] = useState("");
  const [to, address] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const say = useWriting(room.id, ({ text, to, thread }: { text: string; to: string; thread: string }, more) =>
    taken(api.POST("/v1/rooms/{room}/messages", { params: { path: { room: room.id } }, body: { text, to: to ? [to] : [], thread, ...more } })),
  );
  useEffect(() => {
    if (answering) field.current?.focus();
  }, [answering]);
  const send = (event: FormEvent | KeyboardEvent): void => {
    event.preventDefault();
    if (!text.trim() || say.isPending) return;
    say.mutate(
      { text, to, thread: answering ? answering.thread || answering.id : "" },
      {
        onSuccess: () => {
          type("");
          done();
        },
      },
    );
  };
  return (
    <form onSubmit={send} className="card flex flex-col gap-2 p-3" aria-label="Say something">
      {answering ? (
        <p className="flex items-center gap-2 text-sm text-quiet">
          Answering <Plain text={answering.author} />: <span className="min-w-0 flex-1 truncate"><Plain text={answering.text.slice(0, 200)} /></span>
          <Button look="bare" onClick={done}>
            Not this one
          </Button>
        </p>
      ) : null}
      <textarea
        ref={field}
        aria-label="Message"
        placeholder="Say something. @name wakes an agent."
        rows={2}
        maxLength={32_000}
        className="field resize-y"
        value={text}
        onChange={(event) => type(event.target.value)}
        onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event)}
      />
      <Refusal error={say.error} />
      <div className="flex flex-wrap items-center justify-between gap-2">
        <label className="flex items-center gap-1.5 text-sm text-quiet">
          To
          <select className="field max-w-56 text-sm" value={to} onChange={(event) => address(event.target.value)}>
            <option value="">everybody</option>
            {addresses(room.members ?? []).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <Button look="main" icon="send" type="submit" busy={say.isPending} disabled={!text.trim()}>
          Say it
        </Button>
      </div>
    </form>
  );
}
