/** The files of a room. What is in one is shown as text, or saved; nothing of it is opened here. */

import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, taken } from "../api/client";
import { Button } from "../design/Button";
import { Section } from "../design/Section";
import { Empty, Failed, Loading, Refusal } from "../design/States";
import { Ago } from "../design/Time";
import { Long, Plain } from "../text/Text";
import { savedBytes } from "../text/save";
import { plural } from "../text/time";
import { type File, type Room, useHeld } from "./data";
import { bytesOf, hex, joined, size } from "./files";
import { More } from "./More";
import { Author, Theirs } from "./Whose";

const CHUNK_BYTES = 512 * 1024;
const PASSAGES = 200;

export function Files({ room }: { room: Room }) {
  const found = useHeld(room, "files");
  return (
    <Section title="Files" about="All versions, the newest first. Put one there with perdure rooms upload.">
      {found.isPending ? (
        <Loading what="files" />
      ) : found.data === undefined ? (
        <Failed error={found.error} again={() => void found.refetch()} />
      ) : found.items.length === 0 ? (
        <Empty icon="file" title={found.hasNextPage ? "No file lately" : "No file is here"} />
      ) : (
        <ul className="divide-y divide-line">
          {[...found.items].reverse().map((one) => (
            <One key={one.id} room={room.id} file={one} />
          ))}
        </ul>
      )}
      <More of={found} />
    </Section>
  );
}

function One({ room, file }: { room: string; file: File }) {
  const [open, show] = useState(false);
  const save = useMutation({ mutationFn: () => download(room, file) });
  return (
    <li className="flex flex-col gap-2 px-4 py-3 text-sm">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <div className="min-w-0">
          <p className="font-medium">
            <Plain text={file.name} /> <span className="font-normal text-quiet">version {file.version}</span>
          </p>
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-quiet">
            <Author company={file.company} author={file.author} />
            <span>{size(file.size)}</span>
            <Ago atMs={file.at_ms} />
          </p>
        </div>
        <div className="flex gap-2">
          {file.text_state === "text" ? (
            <Button icon="file" aria-expanded={open} onClick={() => show(!open)}>
              {open ? "Hide text" : "Read"}
            </Button>
          ) : null}
          <Button icon="download" busy={save.isPending} onClick={() => save.mutate()} aria-label={`Save ${file.name}, version ${file.version}`}>
            Save
          </Button>
        </div>
      </div>
      <Refusal error={save.error} />
      {open ? <Said room={room} file={file} /> : null}
    </li>
  );
}

function Said({ room, file }: { room: string; file: File }) {
  const found = useQuery({
    queryKey: ["file text", file.id],
    queryFn: ({ signal }) => taken(api.GET("/v1/rooms/{room}/files/{file}/text", { params: { path: { room, file: file.id }, query: { limit: PASSAGES } }, signal })),
    staleTime: Infinity,
  });
  if (found.isPending) return <Loading what="what it says" />;
  if (found.data === undefined) return <Failed error={found.error} again={() => void found.refetch()} />;
  const passages = found.data.items;
  return (
    <Theirs company={file.company}>
      <Long text={joined(passages.map((one) => one.text))} label={`text of ${file.name}`} mono={false} />
      {passages.length === PASSAGES ? <p className="mt-1 text-quiet">The first {plural(PASSAGES, "passage")}. Save it to read on.</p> : null}
    </Theirs>
  );
}

/** Fetch all pieces of a file and hand them out, if they are what was put; a page that is not served safely cannot tell. */
async function download(room: string, file: File): Promise<void> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let number = 0; number < Math.ceil(file.size / CHUNK_BYTES); number++) {
    const path = { room, file: file.id, number };
    parts.push(bytesOf((await taken(api.GET("/v1/rooms/{room}/files/{file}/chunks/{number}", { params: { path } }))).data));
  }
  const content = new Blob(parts, { type: "application/octet-stream" });
  if (globalThis.crypto.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await content.arrayBuffer()));
    if (hex(digest) !== file.blob) throw new Error(`What came is not ${file.name}: its fingerprint is another one. Try again; if it stays so, the store is damaged.`);
  }
  savedBytes(content, file.name);
}
