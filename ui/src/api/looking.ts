/** Whether anybody looks at this browser's tabs of Perdure: each that is visible holds a lock with all others. */

const LOCK = "perdure.looking";

let release: (() => void) | null = null;

function hold(): void {
  const seen = document.visibilityState === "visible";
  if (seen && !release) {
    const until = new Promise<void>((done) => {
      release = done;
    });
    void navigator.locks.request(LOCK, { mode: "shared" }, () => until);
  } else if (!seen) {
    release?.();
    release = null;
  }
}

/** Say from now on whether this tab is looked at. Called once. */
export function lookOn(): void {
  if (!("locks" in navigator)) return;
  hold();
  document.addEventListener("visibilitychange", hold);
}

/** Whether any tab is; where there are no locks, whether this one is. */
export async function lookedAt(): Promise<boolean> {
  if (document.visibilityState === "visible") return true;
  if (!("locks" in navigator)) return false;
  const { held = [] } = await navigator.locks.query();
  return held.some((one) => one.name === LOCK);
}
