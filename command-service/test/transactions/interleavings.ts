import { projections as allProjections, startProjectors } from '@token-vault/projectors';
import { waitUntil } from '@token-vault/test-support';
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Fault } from '../tokens/faults.ts';
import type { TestVault } from '../tokens/vault.ts';
import { lifetimeMs, Model, type Outcome } from './model.ts';

type Step =
  | { readonly kind: 'open' }
  | { readonly kind: 'create' | 'patch' | 'delete'; readonly token: number; readonly in: number | undefined }
  | { readonly kind: 'tokenize'; readonly tokens: readonly number[]; readonly in: number | undefined }
  | { readonly kind: 'commit' | 'rollback'; readonly of: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'restart' };

const ids = ['tok-a', 'tok-b', 'tok-c', 'tok-d'];
const idAt = (token: number): string => ids[token % ids.length] ?? 'tok-a';
const token = fc.nat({ max: ids.length - 1 });
const transaction = fc.nat({ max: 2 });
const within = fc.option(transaction, { nil: undefined, freq: 3 });
const write = <Kind extends string>(kind: Kind) => fc.record({ kind: fc.constant(kind), token, in: within });

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof<fc.WeightedArbitrary<Step>[]>(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('open' as const) }) },
    { weight: 6, arbitrary: write('create') },
    { weight: 4, arbitrary: write('patch') },
    { weight: 4, arbitrary: write('delete') },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant('tokenize' as const),
        tokens: fc.array(token, { minLength: 1, maxLength: 3 }),
        in: within,
      }),
    },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('commit' as const), of: transaction }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('rollback' as const), of: transaction }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant('wait' as const),
        ms: fc.constantFrom(1000, lifetimeMs / 2, lifetimeMs),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
  ),
  { minLength: 5, maxLength: 30 },
);

/**
 * A run of the vault beside the model. A transaction is named by its place in the order of opening, modulo the number
 * of transactions.
 */
class Run {
  readonly vault: TestVault;
  readonly model = new Model();
  readonly #opened: string[] = [];
  #value = 0;

  constructor(vault: TestVault) {
    this.vault = vault;
  }

  async start(): Promise<void> {
    this.vault.clock.set('2030-01-01T00:00:00Z');
    this.vault.faults.decide = () => undefined;
    await this.vault.newTenant();
    this.vault.restart();
  }

  #transaction(wish: number | undefined): number | undefined {
    return wish === undefined || this.#opened.length === 0
      ? undefined
      : Math.max(0, this.#opened.length - 1 - wish);
  }

  /** Takes the step on the vault and on the model, and compares the outcomes. */
  async take(step: Step): Promise<void> {
    const call = this.#plan(step);
    if (!call) return;
    const actual = await outcomeOf(call.run());
    expect({ step, outcome: actual }).toEqual({ step, outcome: call.expected() });
  }

  /**
   * Takes the step while the store breaks at its nth append. The log tells whether the step happened; it must have
   * happened completely or not at all.
   */
  async takeBroken(step: Step, nth: number, fault: Fault): Promise<void> {
    const call = this.#plan(step);
    if (!call) return;
    let appends = 0;
    let isHit = false;
    this.vault.faults.decide = () => {
      appends += 1;
      if (appends < nth || isHit) return undefined;
      isHit = true;
      return fault;
    };
    const actual = await outcomeOf(call.run());
    this.vault.faults.decide = () => undefined;
    this.vault.restart();
    if (actual !== 'unavailable') {
      expect({ step, outcome: actual }).toEqual({ step, outcome: call.expected() });
      // The broken append may have been the end of the vault's own transaction: its locks last for its hour.
      if (isHit && step.kind === 'tokenize') await this.take({ kind: 'wait', ms: lifetimeMs });
      return;
    }
    expect(isHit).toBe(true);
    await call.recover();
  }

  #plan(step: Step) {
    const { vault, model } = this;
    switch (step.kind) {
      case 'open':
        return {
          run: async () => void this.#opened.push(await vault.begin()),
          expected: (): Outcome => (model.open(), 'ok'),
          recover: async () => undefined,
        };
      case 'create':
      case 'patch':
      case 'delete':
        return this.#planWrite(step.kind, idAt(step.token), this.#transaction(step.in));
      case 'tokenize':
        return this.#planTokenize(step.tokens.map(idAt), this.#transaction(step.in));
      case 'commit':
      case 'rollback': {
        const index = this.#transaction(step.of);
        return index === undefined ? undefined : this.#planEnd(step.kind, index);
      }
      case 'wait':
        vault.clock.advance(step.ms);
        model.now += step.ms;
        return undefined;
      case 'restart':
        vault.restart();
        return undefined;
    }
  }

  #planWrite(kind: 'create' | 'patch' | 'delete', id: string, index: number | undefined) {
    const { vault, model } = this;
    const value = this.#newValue();
    const options = { transaction: index === undefined ? undefined : this.#opened[index] };
    const run = async (): Promise<unknown> => {
      if (kind === 'create') return vault.create({ type: 'token', id, ...valued(value) }, options);
      if (kind === 'patch') return vault.update(id, valued(value), options);
      return vault.remove(id, options);
    };
    const expected = (): Outcome => model.write(kind, id, value, index);
    const recover = async (): Promise<void> => {
      const wanted = kind === 'delete' ? undefined : value;
      const isDone = model.expect(kind, id, index) === 'ok' && (await this.#read(id, index)) === wanted;
      if (isDone) expected();
    };
    return { run, expected, recover };
  }

  #planTokenize(tokenIds: readonly string[], index: number | undefined) {
    const { vault, model } = this;
    const value = this.#newValue();
    const options = { transaction: index === undefined ? undefined : this.#opened[index] };
    const payload = tokenIds.map((id) => ({ type: 'token', id, ...valued(value) }));
    const recover = async (): Promise<void> => {
      const seen = await Promise.all(tokenIds.map((id) => this.#read(id, index)));
      const done = tokenIds.filter((_id, n) => seen[n] === value);
      if (index === undefined) expect([0, tokenIds.length]).toContain(done.length);
      // In the caller's transaction a broken store can also prevent the withdrawal. Then the caller rolls back.
      if (index === undefined ? done.length > 0 : false) model.tokenize(tokenIds, value, index);
      if (index !== undefined) await this.take({ kind: 'rollback', of: this.#opened.length - 1 - index });
      // A transaction of the vault that could not be ended holds its locks for its hour.
      if (index === undefined) await this.take({ kind: 'wait', ms: lifetimeMs });
    };
    return {
      run: (): Promise<unknown> => vault.tokenize(payload, options),
      expected: (): Outcome => model.tokenize(tokenIds, value, index),
      recover,
    };
  }

  #planEnd(how: 'commit' | 'rollback', index: number) {
    const { vault, model } = this;
    const id = this.#opened[index] ?? '';
    const expected = (): Outcome => model.end(how, index);
    const recover = async (): Promise<void> => {
      // When the transaction is not open any more, the step happened.
      const isEnded = (await outcomeOf(vault.end('rollback', id))) === 'transaction_not_open';
      if (isEnded) expected();
      else model.end('rollback', index);
    };
    return { run: () => vault.end(how, id), expected, recover };
  }

  #newValue(): string {
    this.#value += 1;
    return `value-${this.#value}`;
  }

  /** Reads the value without opening sealed data, so that all tokens can be read after every step. */
  async #read(id: string, index: number | undefined): Promise<string | undefined> {
    const { state } = await this.vault.history(id, index === undefined ? undefined : this.#opened[index]);
    return state.kind === 'present' ? state.details.content.metadata?.value : undefined;
  }

  /**
   * Compares all reads with the model: the committed state for everyone, and the state of each open transaction for
   * its caller.
   */
  async verify(): Promise<void> {
    for (const index of [undefined, ...this.#opened.keys()]) {
      if (index !== undefined && !this.model.isOpen(index)) continue;
      const seen = new Map<string, unknown>();
      for (const id of ids) {
        const data = await this.#read(id, index);
        if (data !== undefined) seen.set(id, data);
      }
      expect({ index, seen: sorted(seen) }).toEqual({ index, seen: sorted(this.model.seenBy(index)) });
    }
  }

  /** Ends every transaction. Then exactly one data key is left for each live token. */
  async finish(): Promise<void> {
    for (const [index, id] of this.#opened.entries()) {
      if (this.model.isOpen(index))
        await this.take({ kind: 'rollback', of: this.#opened.length - 1 - index });
      await this.vault.settle(id);
    }
    await this.verify();
    for (const [id, value] of this.model.committed) expect((await this.vault.stored(id))?.data).toBe(value);
    const live = [...this.model.committed.keys()].sort();
    expect(await this.vault.keys()).toEqual(live.map((id) => `${id} data`));
  }
}

/** The same value in plaintext and sealed. */
const valued = (value: string) => ({ data: value, metadata: { value } });

const sorted = (map: ReadonlyMap<string, unknown>) =>
  [...map].sort(([left], [right]) => left.localeCompare(right));

async function outcomeOf(call: Promise<unknown>): Promise<Outcome | 'unavailable'> {
  try {
    await call;
    return 'ok';
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === 'event_store_unavailable') return 'unavailable';
    if (['not_found', 'token_id_taken', 'token_locked', 'transaction_not_open'].includes(code ?? ''))
      return code as Outcome;
    throw error;
  }
}

interface Break {
  readonly nth: number;
  readonly fault: Fault;
}
const breaks: fc.Arbitrary<(Break | undefined)[]> = fc.array(
  fc.option(
    fc.record({ nth: fc.integer({ min: 1, max: 6 }), fault: fc.constantFrom<Fault>('before', 'after') }),
    {
      nil: undefined,
      freq: 2,
    },
  ),
  { minLength: 30, maxLength: 30 },
);

/** The ids of the live tokens of each tenant after a property. Each run has its own tenant on one log. */
export type LiveTokens = Map<string, string[]>;

/** `numRuns` random interleavings. After each step all tokens are read. */
export async function checkInterleavings(vault: TestVault, numRuns: number): Promise<LiveTokens> {
  const live: LiveTokens = new Map();
  const property = fc.asyncProperty(steps, async (taken) => {
    const run = new Run(vault);
    await run.start();
    for (const step of taken) {
      await run.take(step);
      await run.verify();
    }
    live.set(vault.principal.tenant.id, [...run.model.committed.keys()].sort());
    await run.finish();
  });
  await fc.assert(property, { numRuns });
  return live;
}

/** As `checkInterleavings`, while the store sometimes breaks before or after an append is stored. */
export async function checkBrokenInterleavings(vault: TestVault, numRuns: number): Promise<LiveTokens> {
  const live: LiveTokens = new Map();
  const property = fc.asyncProperty(steps, breaks, async (taken, broken) => {
    const run = new Run(vault);
    await run.start();
    for (const [n, step] of taken.entries()) {
      const fault = broken[n];
      await (fault ? run.takeBroken(step, fault.nth, fault.fault) : run.take(step));
      await run.verify();
    }
    live.set(vault.principal.tenant.id, [...run.model.committed.keys()].sort());
  });
  await fc.assert(property, { numRuns });
  return live;
}

/** Checks that the read model of tokens, made from the whole log, holds the same tokens. */
export async function checkReadModel(vault: TestVault, live: LiveTokens): Promise<void> {
  const projections = allProjections.filter(({ name }) => name === 'tokens');
  const projectors = startProjectors({ store: vault.log, connectionString: vault.url, projections });
  const head = await vault.log.head();
  await waitUntil(async () => (await projectors.status()).some(({ position }) => position === head), {
    timeoutMs: 60_000,
    what: 'the projection of the whole log',
  });
  await projectors.close();
  const { rows } = await vault.pool.query<{ tenant_id: string; id: string }>(
    'select tenant_id, id from rm_tokens.token order by tenant_id, id',
  );
  const found: LiveTokens = new Map();
  for (const { tenant_id: tenantId, id } of rows) found.set(tenantId, [...(found.get(tenantId) ?? []), id]);
  for (const [tenantId, ids] of live) expect(found.get(tenantId) ?? []).toEqual(ids);
}
