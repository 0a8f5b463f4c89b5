import { useEffect, useState } from "react";
import { IconButton } from "../design/Button";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <IconButton
      icon={done ? "check" : "copy"}
      label={done ? "Copied" : label}
      onClick={() => void navigator.clipboard?.writeText(text).then(() => setDone(true))}
    />
  );
}

/** An id: short where there is little room, whole in the title and for whoever copies it. */
export function Id({ id, short = false }: { id: string; short?: boolean }) {
  const text = short && id.length > 15 ? `${id.slice(0, 4)}…${id.slice(-8)}` : id;
  return (
    <span title={id} className="font-mono text-[0.92em]">
      {text}
    </span>
  );
}

/** A command as one types it, to be taken along. */
export function Command({ text }: { text: string }) {
  return (
    <div className="mt-2 flex items-center gap-1 rounded-md bg-sunken pr-1 pl-3">
      <code className="min-w-0 flex-1 py-2 font-mono text-sm">{text}</code>
      <CopyButton text={text} label={`Copy ${text}`} />
    </div>
  );
}
