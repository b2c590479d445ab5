import type { Json } from '@token-vault/contracts';
import type { Client } from '@token-vault/test-support';
import type { Draft } from '../places.ts';
import type { CallerName, World } from '../world.ts';

export type Ready = Partial<Pick<Draft, 'params' | 'query' | 'headers'>> & { readonly body?: Json };

/** A request of the operation that succeeds. */
export interface Plan {
  readonly by: CallerName;
  ready(world: World): Promise<Ready> | Ready;
  /** The name of the method in `req.svc`. */
  readonly svc?: string;
  /** The arguments of the method in `req.svc`. */
  readonly values?: (draft: Draft) => readonly Json[];
  /** The form of a canary at places where a bare number would be refused. */
  readonly written?: Readonly<Record<string, (number: string) => string>>;
}

/** Forms of a canary. */
export const path = (number: string): string => `/card-${number}/`;
export const uuidOf = (text: string): string =>
  `${text.slice(0, 8)}-${text.slice(8, 12)}-${text.slice(12, 16)}-0000-000000000000`;

export const managerOf = (world: World): Client =>
  world.clientWithoutKey.withKey(world.keys.management ?? '');
export const revealerOf = (world: World): Client =>
  world.clientWithoutKey.withKey(world.keys.revealing ?? '');
export const idOf = async (client: Client, at: string, body: object): Promise<string> =>
  (await client.expect<{ id: string }>(201, 'POST', at, { body })).body.id;

/** The arguments of a method that takes an id and then a body. */
export const idAndBody = ({ params, body }: Draft): Json[] =>
  [params['id'] ?? null, body ?? null].filter((value) => value !== null);
