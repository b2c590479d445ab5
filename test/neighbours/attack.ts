import { createClient, plainApplication, type Client } from '@token-vault/test-support';
import type { Application, Reactor } from '@token-vault/contracts';

/** The place of an attack: a running vault, and a tenant of the attacker. */
export interface Place {
  readonly url: string;
  /** Sends the management key of the attacker's tenant, which has the enterprise plan. */
  readonly manager: Client;
}

/**
 * Makes one request of the attack and gives the status of the answer. Undefined when it did not wait for an answer.
 * Ends early when aborted.
 */
export type Strike = (signal: AbortSignal) => Promise<number | undefined>;

export interface Attack {
  readonly name: string;
  /** The lines of issue 18 that the attack belongs to. */
  readonly line: string;
  /** The number of concurrent strikes. */
  readonly atOnce: number;
  /** The statuses that strikes may get. Another status means that the attack does not do what its name says. */
  readonly statuses: readonly number[];
  /** One of these statuses, which a limit gives. The attack counts as started when it has occurred. */
  readonly limit?: number;
  /**
   * The client of the attack takes much of the machine, whatever the vault does. So the bench measures the neighbour alone while the same
   * client sends its requests to another server (`test/bench/sink.ts`), which answers each by this status at once and closes the connection.
   */
  readonly sink?: number;
  /** Prepares the attack. */
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

/** Always the same request. Its JSON is made once, so that the attacker needs little CPU itself. */
export function repeat(caller: Client, method: string, path: string, body?: object): Strike {
  const text = body === undefined ? {} : { text: JSON.stringify(body) };
  return async () => (await caller.request(method, path, text)).status;
}

export interface Onslaught {
  /** The number of strikes that began. */
  readonly begun: number;
  /** The number of answers so far by status. `none`: strikes that did not wait for an answer. */
  readonly answers: ReadonlyMap<number | 'none' | 'broken', number>;
  readonly strikes: number;
  /** Waits for the running strikes to end. */
  stop(): Promise<void>;
}

/** Strikes continuously, `atOnce` at a time, until stopped. */
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
