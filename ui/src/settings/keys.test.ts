import { describe, expect, it } from "vitest";
import { KEY_BYTES, keysOf, newKey, role } from "./keys";

describe("keys", () => {
  it("are made of 256 bits, in the characters that servers take, and of nothing else", () => {
    expect(newKey(new Uint8Array(KEY_BYTES))).toBe(`pdk_${"A".repeat(43)}`);
    expect(newKey(new Uint8Array(KEY_BYTES).fill(255))).toBe(`pdk_${"_".repeat(42)}8`);
    expect(newKey(new Uint8Array(KEY_BYTES).fill(251))).toMatch(/^pdk_[A-Za-z0-9_-]{43}$/);
    const [one, other] = [0, 0].map(() => newKey(crypto.getRandomValues(new Uint8Array(KEY_BYTES))));
    expect(one).not.toBe(other);
  });

  it("are told apart by whether they open anything, with whose they are", () => {
    const key = { id: "1", name: "ann", made_ms: 1, revoked_ms: null, begins: "pdk_abcd" };
    const { good, revoked } = keysOf([
      { company: "acme", made_ms: 1, keys: [key, { ...key, id: "2", revoked_ms: 5 }] },
      { company: "empty", made_ms: 1, keys: [] },
    ]);
    expect(good).toEqual([{ ...key, company: "acme" }]);
    expect(revoked.map((one) => one.id)).toEqual(["2"]);
  });

  it("say who runs the server: the default company's admin, and nobody else's", () => {
    expect(role({ company: "default", name: "admin" })).toMatch(/run the server/);
    for (const other of [{ company: "acme", name: "admin" }, { company: "default", name: "eve" }]) expect(role(other)).toMatch(/for its company/);
  });
});
