import type { Json, JsonObject } from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';

function isObject(data: Json): data is JsonObject {
  return typeof data === 'object' && data !== null && !Array.isArray(data);
}

/** The data of a token in its two parts. Each is sealed under its own key. */
interface Parts {
  readonly rest: Json;
  /** Undefined when the token has no cvc. */
  readonly cvc: Json | undefined;
}

/** The cvc of a card is sealed apart from the rest (rules.md §3). */
export function split(type: string, data: Json): Parts {
  if (type !== 'card' || !isObject(data) || data.cvc === undefined) return { rest: data, cvc: undefined };
  const { cvc, ...rest } = data;
  return { rest, cvc };
}

/** The data as the owner gave it. */
export function join(rest: Secret<Json>, cvc: Secret<Json> | undefined): Secret<Json> {
  const data = rest.expose();
  return cvc && isObject(data) ? secret({ ...data, cvc: cvc.expose() }) : rest;
}

/**
 * The data that ids, fingerprints and search indexes may be computed from. A card's cvc is left out: not even a keyed
 * hash of it may be kept longer than its hour (PCI DSS 3.3.1).
 */
export const lastingPart = (type: string, data: Secret<Json>): Secret<Json> =>
  secret(split(type, data.expose()).rest);
