import { createClient, plainApplication, type Client } from '@token-vault/test-support';
import type { Application, Reactor } from '@token-vault/contracts';

/** Where an attack takes place: a running vault, and a tenant of the attacker's own. */
export interface Place {
  readonly url: string;
  /** Sends the management key of the attacker's tenant, which has the enterprise plan. */
  readonly manager: Client;
}

/** Does the attack once and gives the status of the answer; undefined when no answer was waited for. Ends early when aborted. */
export type Strike = (signal: AbortSignal) => Promise<number | undefined>;

export interface Attack {
  readonly name: string;
  /** The lines of issue 18 that it is of. */
  readonly line: string;
  /** Strikes under way at the same time. */
  readonly atOnce: number;
  /** What strikes may be answered with. Another status says that the attack is not what its name says. */
  readonly statuses: readonly number[];
  /** One of them, of a limit: before it is met the attack has not begun. */
  readonly limit?: number;
  /** Makes what the attack needs. */
  prepare(place: Place): Promise<Strike>;
}

export interface Caller extends Client {
  readonly applicationId: string;
  readonly key: string;
}

/** A new application of the place's tenant. */
export async function makeCaller({ url, manager }: Place, overrides: object = {}): Promise<Caller> {
  const body = plainApplication({ name: 'caller', ...overrides });
  const { id, key = '' } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { ...createClient(url, key), applicationId: id, key };
}

export const publicCaller = { type: 'public', permissions: ['token:create'] };

/** The path at which a new reactor with `code` as the body of its function is invoked. */
export async function makeReactor({ manager }: Place, code: string, application?: string): Promise<string> {
  const body = {
    name: 'r',
    configuration: {},
    code: `module.exports = async (req) => {\n${code}\n};`,
    ...(application === undefined ? {} : { application: { id: application } }),
  };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body;
  return `/reactors/${id}/react`;
}

/** Always the same request. What it is made of is written as JSON once, so that the attacker's own work is small. */
export function repeat(caller: Client, method: string, path: string, body?: object): Strike {
  const text = body === undefined ? {} : { text: JSON.stringify(body) };
  return async () => (await caller.request(method, path, text)).status;
}

export interface Onslaught {
  /** How many strikes were begun. */
  readonly begun: number;
  /** How many strikes were answered with which status, so far; `none` of those that waited for no answer. */
  readonly answers: ReadonlyMap<number | 'none' | 'broken', number>;
  readonly strikes: number;
  /** Lets the strikes under way end. */
  stop(): Promise<void>;
}

/** Strikes again and again, `atOnce` at a time, until it is stopped. */
export function strikeOn(strike: Strike, atOnce: number): Onslaught {
  const abort = new AbortController();
  const answers = new Map<number | 'none' | 'broken', number>();
  let [begun, strikes] = [0, 0];
  const count = (answer: number | 'none' | 'broken') => {
    strikes += 1;
    answers.set(answer, (answers.get(answer) ?? 0) + 1);
  };
  const attackers = Array.from({ length: atOnce }, async () => {
    while (!abort.signal.aborted) {
      begun += 1;
      await strike(abort.signal).then(
        (status) => count(status ?? 'none'),
        () => count('broken'),
      );
    }
  });
  return {
    answers,
    get begun() {
      return begun;
    },
    get strikes() {
      return strikes;
    },
    async stop() {
      abort.abort();
      await Promise.all(attackers);
    },
  };
}
