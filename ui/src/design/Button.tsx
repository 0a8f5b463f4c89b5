import type { ButtonHTMLAttributes, ReactNode } from "react";
import { Icon, type IconName } from "./icons";

type Props = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className"> & {
  look?: "plain" | "main" | "danger" | "bare";
  icon?: IconName;
  /** While what it asked for is under way: it is not asked for twice. */
  busy?: boolean;
  wide?: boolean;
  children?: ReactNode;
};

const LOOKS = {
  plain: "border border-edge bg-card text-ink enabled:hover:bg-hover",
  main: "border border-transparent bg-accent-fill text-on-accent enabled:hover:brightness-110",
  danger: "border border-edge bg-card text-bad enabled:hover:bg-hover",
  bare: "border border-transparent text-quiet enabled:hover:bg-hover enabled:hover:text-ink",
};

export function Button({ look = "plain", icon, busy = false, wide = false, children, disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled || busy}
      aria-busy={busy}
      className={`inline-flex min-h-8 items-center justify-center gap-1.5 rounded-md px-3 py-1 text-sm font-medium transition-colors disabled:opacity-60 max-sm:min-h-10 ${LOOKS[look]} ${wide ? "w-full" : ""}`}
    >
      {busy ? <Icon name="spinner" size={14} className="turning" /> : icon ? <Icon name={icon} size={14} /> : null}
      {children}
    </button>
  );
}

/** A button that is a picture alone: its name is read out, and shown as a title. */
export function IconButton({ label, icon, ...rest }: { label: string; icon: IconName } & Omit<ButtonHTMLAttributes<HTMLButtonElement>, "className" | "children">) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      {...rest}
      className="inline-flex size-8 shrink-0 items-center justify-center rounded-md text-quiet transition-colors enabled:hover:bg-hover enabled:hover:text-ink disabled:opacity-50 max-sm:size-10"
    >
      <Icon name={icon} />
    </button>
  );
}
