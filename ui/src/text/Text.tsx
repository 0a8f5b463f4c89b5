/** Text of strangers: as text, set apart from what stands around it, with every trick in it made visible. */

import { useState } from "react";
import { Button } from "../design/Button";
import { CopyButton } from "./Copy";
import { beginning, pieces, size } from "./hostile";
import { saved } from "./save";

const AT_ONCE = 4_000;
const MORE = 60_000;

export function Plain({ text }: { text: string }) {
  return (
    <bdi>
      {pieces(text).map((one, at) =>
        one.trick ? (
          <span key={at} title="A character that cannot be seen, or moves others" className="toned tone-bad mx-px rounded-sm px-1 font-mono text-xs">
            {one.text}
          </span>
        ) : (
          one.text
        ),
      )}
    </bdi>
  );
}

/** A text of any length, of which a beginning is laid out; the rest on demand, a piece at a time, or as a file. */
export function Long({ text, label, mono = true }: { text: string; label: string; mono?: boolean }) {
  const [most, setMost] = useState(AT_ONCE);
  const cut = beginning(text, most);
  return (
    <div className="group relative">
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className={`max-h-[28rem] overflow-auto rounded-md bg-sunken p-3 text-sm whitespace-pre-wrap ${mono ? "font-mono" : "font-sans"}`}
      >
        <Plain text={cut} />
      </pre>
      <div className="absolute top-1 right-1 flex gap-1 opacity-0 transition-opacity group-focus-within:opacity-100 group-hover:opacity-100 max-sm:opacity-100">
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      {cut.length < text.length ? (
        <div className="mt-2 flex flex-wrap items-center gap-2 text-sm text-quiet">
          <span>
            {size(cut)} of {size(text)} shown.
          </span>
          <Button onClick={() => setMost(most + MORE)}>Show more</Button>
          <Button icon="download" onClick={() => saved(text, `${label.replace(/[^\w-]+/g, "-")}.txt`)}>
            Save all
          </Button>
        </div>
      ) : null}
    </div>
  );
}
