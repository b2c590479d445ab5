import type { LogEntry, Pagination, Token } from '@token-vault/contracts';
import { cardNumber, cardToken, type Client } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

/** The state of a token as a client knows it. Only an answered request counts as done. */
interface Known {
  readonly id: string;
  readonly number: string;
  isCreated: boolean;
  /** The creation was answered 503: nothing was done. */
  isRefused: boolean;
  /** The deletion was sent, maybe without an answer. */
  isDeleteTried: boolean;
  isDeleted: boolean;
  /** The number of its reads that were answered with data. */
  reads: number;
}

interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

export interface Access {
  /** Has all token permissions and sees plaintext. */
  readonly tokens: Client;
  readonly manager: Client;
  readonly databaseUrl: string;
}

/**
 * The clients' record of the requests that they sent and that were acknowledged. The audit compares it with the
 * vault.
 */
export class Ledger {
  readonly #known: Known[] = [];
  /** Answers that no client may get at any time. */
  readonly violations: string[] = [];

  /** Acknowledged tokens that the next request answered with 404. At the audit they must exist. */
  readonly stale: string[] = [];

  get acknowledged(): number {
    return this.#known.filter(({ isCreated }) => isCreated).length;
  }

  get deleted(): number {
    return this.#known.filter(({ isDeleted }) => isDeleted).length;
  }

  /** The ids of tokens that must exist. */
  get survivors(): string[] {
    return this.#known
      .filter(({ isCreated, isDeleteTried }) => isCreated && !isDeleteTried)
      .map(({ id }) => id);
  }

  /** Claims operations on `id` that never happened. */
  pretend(id: string): void {
    for (const token of this.#known)
      if (token.id === id) Object.assign(token, { isDeleted: true, reads: 99 });
  }

  /** The work of one client: create, read, sometimes delete, until it is stopped or the connection breaks. */
  async live(client: Client, signal: AbortSignal): Promise<void> {
    for (let turn = 0; !signal.aborted; turn += 1) {
      const token: Known = {
        id: randomUUID(),
        number: cardNumber(),
        isCreated: false,
        isRefused: false,
        isDeleteTried: false,
        isDeleted: false,
        reads: 0,
      };
      this.#known.push(token);
      try {
        await this.#live(client, token, turn);
      } catch {
        // The vault is gone. Requests without an acknowledgement may or may not have happened.
        return;
      }
    }
  }

  async #live(client: Client, token: Known, turn: number): Promise<void> {
    const { id, number } = token;
    const body = cardToken(number, { id, metadata: { turn: String(turn) } });
    const created = await client.request('POST', '/tokens', { body });
    token.isCreated = this.#isStatus(201, created, id);
    token.isRefused = created.status === 503;
    // Waits as a client should after 503 or `SVC-CONSISTENCY: pending`.
    if (!token.isCreated || isPending(created)) return sleep(50);
    if (turn % 2 === 0) await this.#read(client, token);
    if (turn % 3 !== 0) return;
    token.isDeleteTried = true;
    const deleted = await client.request('DELETE', `/tokens/${id}`);
    token.isDeleted = this.#isStatus(204, deleted, id);
    if (!token.isDeleted || isPending(deleted)) return;
    this.#isStatus(404, await client.request('GET', `/tokens/${id}`), id);
  }

  async #read(client: Client, token: Known): Promise<void> {
    const answer = await client.request<Token>('GET', `/tokens/${token.id}`);
    if (answer.status === 404) return void this.stale.push(token.id);
    if (!this.#isStatus(200, answer, token.id)) return;
    token.reads += 1;
    const { number } = answer.body.data as { number: string };
    if (number !== token.number) this.violations.push(`${token.id} was read with other data`);
  }

  /** 503: nothing was done. 502 and 504 of a router: the outcome is unknown (rules.md §1). */
  #isStatus(expected: number, answer: { status: number; text: string }, id: string): boolean {
    if (answer.status === expected) return true;
    const isUnknown = [502, 504].includes(answer.status) && answer.text.includes(':outcome-unknown"');
    if (answer.status !== 503 && !isUnknown)
      this.violations.push(`${id}: ${answer.status} instead of ${expected}: ${answer.text}`);
    return false;
  }

  /** Reads every token that a client asked for, and compares. Gives the differences. */
  async audit(access: Access): Promise<string[]> {
    const wrong: string[] = [];
    const left = [...this.#known];
    const reader = async () => {
      for (let token = left.pop(); token; token = left.pop()) {
        const answer = await settledRead(access.tokens, token);
        if (answer.status === 200) token.reads += 1;
        const problem = judge(token, answer);
        if (problem !== undefined) wrong.push(`${token.id} ${problem}`);
      }
    };
    await Promise.all(Array.from({ length: 16 }, reader));
    return [...wrong, ...(await this.#auditList(access)), ...(await this.#auditKeys(access))];
  }

  /** The list and its total have exactly the tokens that were created and not deleted, and none that was refused. */
  async #auditList({ tokens }: Access): Promise<string[]> {
    const listed = new Set<string>();
    let total = 0;
    for (let page = 1, pages = 1; page <= pages; page += 1) {
      const { body } = await tokens.expect<Page<Token>>(200, 'GET', `/tokens?size=100&page=${page}`);
      for (const { id } of body.data) listed.add(id);
      pages = body.pagination.total_pages;
      total = body.pagination.total_items;
    }
    const wrong = this.#known.filter(
      ({ id, isCreated, isRefused, isDeleteTried, isDeleted }) =>
        ((isDeleted || isRefused) && listed.has(id)) || (isCreated && !isDeleteTried && !listed.has(id)),
    );
    const findings = wrong.map(({ id }) => `${id} is ${listed.has(id) ? '' : 'not '}listed`);
    if (total !== listed.size) findings.push(`the total of ${total} is not the ${listed.size} listed`);
    return findings;
  }

  /** No key of a token remains after its deletion was acknowledged. */
  async #auditKeys({ databaseUrl }: Access): Promise<string[]> {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    const { rows } = await client.query<{ entity: string }>('select entity from key_ring.data_key');
    await client.end();
    const entities = new Set(rows.map(({ entity }) => entity.slice(entity.indexOf(':') + 1)));
    return this.#known
      .filter(({ id, isDeleted }) => isDeleted && entities.has(id))
      .map(({ id }) => `${id} is deleted, its keys are not`);
  }

  /** Each acknowledged operation, and each read that showed data, is in the log. Gives the missing ones. */
  async auditLog({ manager }: Access): Promise<string[]> {
    const counts = new Map<string, number>();
    // Reading the log makes log entries. The date keeps them from moving the pages.
    const until = new Date(Date.now() + 1).toISOString();
    for (let page = 1, pages = 1; page <= pages; page += 1) {
      const path = `/logs?entity_type=card&size=100&page=${page}&end_date=${until}`;
      const { body } = await manager.expect<Page<LogEntry>>(200, 'GET', path);
      for (const { entity_id: id, operation } of body.data) {
        counts.set(`${operation} ${id}`, (counts.get(`${operation} ${id}`) ?? 0) + 1);
      }
      pages = body.pagination.total_pages;
    }
    const count = (operation: string, id: string) => counts.get(`${operation} ${id}`) ?? 0;
    return this.#known.flatMap(({ id, isCreated, isDeleted, reads }) => [
      ...(isCreated && count('create', id) !== 1 ? [`${id} is created ${count('create', id)} times`] : []),
      ...(isDeleted && count('delete', id) !== 1 ? [`${id} is deleted ${count('delete', id)} times`] : []),
      ...(count('read', id) < reads ? [`${id}: ${count('read', id)} of ${reads} reads are in the log`] : []),
    ]);
  }
}

/** Acknowledged writes whose read models were late (`SVC-CONSISTENCY: pending`) must be visible after this time. */
const catchUpMs = 20_000;

/** Reads a token, and repeats for a while when an existing token is not shown yet. */
async function settledRead(client: Client, token: Known): ReturnType<typeof client.request<Token>> {
  const until = performance.now() + catchUpMs;
  for (;;) {
    const answer = await client.request<Token>('GET', `/tokens/${token.id}`);
    const isMissing = answer.status === 404 && token.isCreated && !token.isDeleteTried;
    if (!isMissing || performance.now() > until) return answer;
    await sleep(100);
  }
}

/** The vault reports that its read models were not up to date within two seconds (rules.md §1, architecture.md). */
const isPending = ({ headers }: { headers: Headers }): boolean =>
  headers.get('svc-consistency') === 'pending';

/** The error in this answer, for a client with this knowledge of the token. Undefined when there is none. */
function judge(token: Known, answer: { status: number; body: Token }): string | undefined {
  const { isCreated, isRefused, isDeleteTried, isDeleted, number } = token;
  const isAbsentAllowed = !isCreated || isDeleteTried;
  if (answer.status === 404) return isAbsentAllowed ? undefined : 'was acknowledged and is lost';
  if (answer.status !== 200) return `is answered ${answer.status}`;
  if (isDeleted) return 'was deleted and is readable';
  if (isRefused) return 'was refused with 503 and is there';
  return (answer.body.data as { number: string }).number === number ? undefined : 'has other data';
}
