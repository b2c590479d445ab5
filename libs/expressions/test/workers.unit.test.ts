import { UnavailableError } from '@token-vault/contracts';
import { afterAll, describe, expect, it } from 'vitest';
import { createExpressions, createExpressionWorkers, limits, renderMask, type Json } from '../src/index.ts';

const long = 'x'.repeat(500_000);
const slow = '{% for i in (1..3000) %}{% for j in (1..3000) %}{{ i }}{% endfor %}{% endfor %}';
const broken = new URL('./broken-worker.ts', import.meta.url);
const template = "{{ data | split: '' | first }}";
const allowance = { ms: 100, memory: limits.memory, output: limits.output };
const job = (source: string, data: Json = 'abc') => ({ sources: [source], bindings: { data } });

const a = { tenantId: 'a', applicationId: 'a1' };
const beside = { tenantId: 'a', applicationId: 'a2' };
const b = { tenantId: 'b', applicationId: 'b1' };
/** Jobs wait as long as a busy machine needs. */
const workers = createExpressionWorkers({ size: 2, waitMs: 120_000 });
const expressions = createExpressions(workers);
afterAll(() => workers.close());

describe('a worker', () => {
  it('gives the same results and errors as the engine', async () => {
    const request = expressions.of({}, a);
    expect(await renderMask(request, [template, '{{ data | upcase }}'], 'abc')).toEqual(['a', 'ABC']);
    await expect(
      renderMask(request, { a: `${template}{{ data | to_number }}` }, 'abc'),
    ).rejects.toMatchObject({
      name: 'ExpressionEvaluationError',
      field: 'mask.a',
      message: 'Filter to_number needs a number.',
    });
    const { outcome } = await workers.run(a, job(`${template}{{ data | nope }}`), allowance);
    expect(outcome).toMatchObject({
      failures: [{ index: 0, kind: 'syntax', position: { line: 1, column: 31 } }],
    });
  });

  it('keeps no state of one expression for the next, of the same job or of another', async () => {
    const setting = '{% assign x = data %}{% capture y %}{{ data }}{% endcapture %}{% increment z %}{{ x }}';
    const looking = '{{ x }}{{ y }}{% increment z %}{% cycle "a", "b" %}{{ data }}';
    const first = await workers.run(
      a,
      { sources: [setting, looking], bindings: { data: 'secret' } },
      allowance,
    );
    expect(first.outcome).toEqual({ kind: 'values', values: ['0secret', '0asecret'] });
    for (let time = 0; time < 4; time += 1) {
      const next = await workers.run(b, job(looking, 1), allowance);
      expect(next.outcome).toEqual({ kind: 'values', values: ['0a1'] });
    }
  });

  it('ends an expression that exceeds its time between two steps', async () => {
    const { outcome, used } = await workers.run(a, job(slow), allowance);
    expect(outcome).toMatchObject({ failures: [{ message: 'The expression takes too much time.' }] });
    expect(used.ms).toBeGreaterThanOrEqual(allowance.ms);
  });

  it('refuses data that cannot be sent to it', async () => {
    let deep: Json = 1;
    for (let level = 0; level < 200_000; level += 1) deep = [deep];
    const { outcome } = await workers.run(a, job('{{ data | size }}', deep), allowance);
    expect(outcome.kind).toBe('failed');
  });
});

describe('a worker that does not end by itself', () => {
  const small = createExpressionWorkers({ size: 1, script: broken });
  afterAll(() => small.close());
  const doing = (deed: string, ms = 1) => small.run(a, job('x', deed), { ...allowance, ms });

  it.each([
    ['loop', 1, 'The expression takes too much time.'],
    ['fill', 10_000, 'The expression takes too much memory.'],
  ])('%s is replaced; the job has failed, and used all it was given', async (deed, ms, message) => {
    const { outcome, used } = await doing(deed, ms);
    expect(outcome).toMatchObject({ failures: [{ index: 0, message }] });
    expect(used).toEqual({ ...allowance, ms });
    expect((await doing('nothing')).outcome.kind).toBe('values');
  });

  it('is not ended while it gets no CPU time: a busy machine accepts the same expressions as an idle one', async () => {
    expect((await doing('stall')).outcome.kind).toBe('values');
  });

  it.each(['throw', 'exit'])('%s is replaced; the request may be repeated', async (deed) => {
    await expect(doing(deed)).rejects.toThrow(UnavailableError);
    expect((await doing('nothing')).outcome.kind).toBe('values');
  });
});

describe('the expressions of one tenant', () => {
  it('do not delay those of another tenant, for any number of waiting expressions', async () => {
    const both = createExpressionWorkers({ size: 2, waitMs: 120_000, script: broken });
    let ended = 0;
    for (let count = 0; count < 10; count += 1)
      void both
        .run(a, job('x', 'loop'), { ...allowance, ms: 600_000 })
        .catch(() => undefined)
        .then(() => (ended += 1));
    // None of the ten ends by itself, so whoever waits for one of them gets no answer.
    const { outcome } = await both.run(b, job('x', 'nothing'), allowance);
    expect([outcome.kind, ended]).toEqual(['values', 0]);
    await both.close();
  }, 120_000);

  it('wait in a bounded queue', async () => {
    const small = createExpressionWorkers({ size: 1, waitingOfTenant: 4 });
    const runs = Array.from({ length: 4 }, () => small.run(a, job(slow), { ...allowance, ms: 20 }));
    const settled = await Promise.allSettled(runs);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    expect(settled[3]).toMatchObject({ reason: expect.any(UnavailableError) as Error });
    await small.close();
    await expect(small.run(a, job(template), allowance)).rejects.toThrow(UnavailableError);
  });

  it('of which an application that has all that it may leaves the others theirs, and a turn after one of its own', async () => {
    const small = createExpressionWorkers({ size: 1, waitMs: 120_000, waitingOfTenant: 20 });
    let ended = 0;
    const runs = Array.from({ length: 16 }, () =>
      small.run(a, job(slow), { ...allowance, ms: 1 }).then(() => (ended += 1)),
    );
    const settling = Promise.allSettled(runs);
    const { outcome } = await small.run(beside, job(template), allowance);
    expect([outcome, ended]).toEqual([{ kind: 'values', values: ['a'] }, 2]);
    expect((await settling).filter(({ status }) => status === 'fulfilled')).toHaveLength(11);
    await small.close();
  });

  it('wait for a bounded time', async () => {
    const small = createExpressionWorkers({ size: 1, waitMs: 1 });
    const first = small.run(a, job(slow), allowance);
    await expect(small.run(a, job(template), allowance)).rejects.toThrow(UnavailableError);
    expect((await first).outcome.kind).toBe('failed');
    await small.close();
  });
});

describe('the expressions of one request', () => {
  it('share one budget of time', async () => {
    const request = expressions.of({}, a);
    const page = await Promise.allSettled(
      Array.from({ length: 100 }, async () => renderMask(request, `${slow}`, null)),
    );
    expect(page.every(({ status }) => status === 'rejected')).toBe(true);
    // No time is left, so the job is not even sent.
    await expect(renderMask(request, template, 'abc')).rejects.toThrow('too much time');
    // Simple expressions use none of it.
    expect(renderMask(request, '{{ data | reveal_last: 1 }}', 'abc')).toBe('XXc');
  });

  it('run outside the thread that serves requests when they are long: 330 filters over 500 KB are refused before evaluation', async () => {
    const request = expressions.of({}, a);
    await expect(
      (async () => renderMask(request, `{{ data${' | reveal_last: 4'.repeat(330)} }}`, long))(),
    ).rejects.toThrow('A value must have at most 20 filters.');
    expect(renderMask(request, '{{ data | reveal_last: 4 }}', long)).toBeInstanceOf(Promise);
    expect(renderMask(request, '{{ data | reveal_last: 4 }}', 'short')).toBe('Xhort');
  });

  it('use the thread that serves requests for a limited number of steps, for any number of masks', async () => {
    const request = expressions.of({}, a);
    const data = 'x'.repeat(10_000);
    const page = Array.from({ length: 100 }, () => renderMask(request, '{{ data | reveal_last: 4 }}', data));
    const atOnce = page.filter((shown) => typeof shown === 'string').length;
    // 10,001 steps each, counted in units.
    expect(atOnce).toBe(Math.floor(limits.threadStepsOfRequest / (79 * limits.threadStepsUnit)));
    expect(new Set(await Promise.all(page.map(async (shown) => shown))).size).toBe(1);
  });

  it('are found again by the object of the request', () => {
    const request = {};
    expect(expressions.of(request, a)).toBe(expressions.of(request, a));
    expect(expressions.of({}, a)).not.toBe(expressions.of(request, a));
  });
});
