/** Sign in by the link that the server printed. It is good once; the page redeems it, and forgets it at once. */

import { useEffect, useState } from "react";
import { api, taken } from "../api/client";
import { said } from "../api/errors";
import { Button } from "../design/Button";
import { Icon } from "../design/icons";

export function Login({ done }: { done: () => void }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [pasted, setPasted] = useState("");

  const redeem = async (secret: string): Promise<void> => {
    setBusy(true);
    setProblem("");
    try {
      await taken(api.POST("/v1/session", { body: { link: secret } }));
      done();
    } catch (error) {
      setProblem(said(error));
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => {
    const look = (): void => {
      const secret = secretIn(location.hash);
      if (!secret) return;
      // Out of the address and the history before anything else can read it there.
      history.replaceState(null, "", "/login");
      void redeem(secret);
    };
    look();
    addEventListener("hashchange", look); // the link was opened where this page was open already
    return () => removeEventListener("hashchange", look);
  }, []);

  return (
    <main className="flex min-h-dvh items-center justify-center p-4">
      <div className="card flex w-full max-w-md flex-col gap-4 p-6">
        <h1 className="flex items-center gap-2.5 text-xl font-semibold">
          <img src="/icon.svg" alt="" width="28" height="28" /> Sign in to Perdure
        </h1>
        {busy ? (
          <p role="status" className="flex items-center gap-2 text-quiet">
            <Icon name="spinner" className="turning" /> Signing in …
          </p>
        ) : (
          <>
            {problem ? (
              <p role="alert" className="toned tone-bad rounded-md px-3 py-2 text-sm">
                {problem}
              </p>
            ) : null}
            <p className="text-quiet">
              Open the link that the server printed when it started, or print a new one where the server runs. It signs one browser in, once, within ten
              minutes.
            </p>
            <pre className="rounded-md bg-sunken p-3 font-mono text-sm">perdure ui</pre>
            <form
              className="flex flex-col gap-2"
              onSubmit={(event) => {
                event.preventDefault();
                void redeem(secretIn(pasted) ?? pasted.trim());
              }}
            >
              <label htmlFor="link" className="text-sm font-medium">
                Or paste the link here
              </label>
              <input id="link" className="field" value={pasted} onChange={(event) => setPasted(event.target.value)} autoComplete="off" spellCheck={false} />
              <Button look="main" type="submit" disabled={!pasted.trim()}>
                Sign in
              </Button>
            </form>
          </>
        )}
      </div>
    </main>
  );
}

function secretIn(text: string): string | null {
  return /pdl_[\w-]{20,}/.exec(text)?.[0] ?? null;
}
