/** API keys as the settings show them, and how one is made. Pure. */

import type { Schemas } from "../api/client";

export type KeyRow = Schemas["KeyView"] & { readonly company: string };

/** 256 bits of chance. */
export const KEY_BYTES = 32;
/** The company of whoever runs the server, and the name of their key. */
const OWN_COMPANY = "default";
const ADMIN = "admin";

/** A key out of bytes of chance, as every server takes it. */
export function newKey(bytes: Uint8Array): string {
  return `pdk_${btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The keys of all companies that open something, and those that were revoked, each by company and age. */
export function keysOf(companies: readonly Schemas["CompanyView"][]): { good: KeyRow[]; revoked: KeyRow[] } {
  const all = companies.flatMap((one) => one.keys.map((key) => ({ ...key, company: one.company })));
  return { good: all.filter((one) => one.revoked_ms === null), revoked: all.filter((one) => one.revoked_ms !== null) };
}

export function runsTheServer({ company, name }: Pick<KeyRow, "company" | "name">): boolean {
  return company === OWN_COMPANY && name === ADMIN;
}

/** What somebody can do with a key. */
export function role(key: Pick<KeyRow, "company" | "name">): string {
  return runsTheServer(key) ? "run the server, and decide in anybody's name" : "work and decide for its company";
}
