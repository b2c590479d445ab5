import { waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { largeAnswers } from '../src/large-answers.ts';
import type { CodeRun } from '../src/transforms.ts';
import { findProxyWith, fixture, openProxy, read, useProxyFixture } from './proxy-fixture.ts';

useProxyFixture();

/** As many large answers as an application may hold at once. */
const places = 16;
const large = `[${'{},'.repeat(300_000)}{}]`;

/** Runs that go on until `end`. */
function openRuns() {
  const begun: CodeRun['args'][] = [];
  const ended = Promise.withResolvers<void>();
  const proxy = openProxy({
    findProxy: findProxyWith('responseCode'),
    async runCode({ args }) {
      begun.push(args);
      await ended.promise;
      return { raw: { body: 'changed' } };
    },
  });
  const tenantId = randomUUID();
  const ask = () => proxy(tenantId, undefined, randomUUID());
  return { ask, begun, end: () => ended.resolve() };
}

const answering = (body: string) => {
  fixture.answering = (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(body);
};

it('an answer of JSON goes to the code as text', async () => {
  answering('{"a":[1]}');
  const runs = openRuns();
  runs.end();
  await runs.ask();
  expect(runs.begun).toMatchObject([{ args: { status: 200, body: null }, bodyText: '{"a":[1]}' }]);
});

it('large answers beyond those that an application may hold are read when the runs before are over', async () => {
  answering(large);
  const runs = openRuns();
  const asked = Array.from({ length: places + 4 }, () => runs.ask());
  await waitUntil(() => largeAnswers.waiting === 4 && runs.begun.length === places, { what: 'the runs' });
  // Another application, and small answers, do not wait for them.
  fixture.applicationId = randomUUID();
  asked.push(runs.ask());
  await waitUntil(() => runs.begun.length === places + 1, { what: 'the run of another application' });
  runs.end();
  const answers = await Promise.all(asked);
  expect(await Promise.all(answers.map(({ stream }) => read(stream)))).toEqual(
    Array.from({ length: places + 5 }, () => 'changed'),
  );
  expect(largeAnswers.waiting).toBe(0);
});

it('small answers wait for no place', async () => {
  answering('{}');
  const runs = openRuns();
  const asked = Array.from({ length: places + 4 }, () => runs.ask());
  await waitUntil(() => runs.begun.length === places + 4, { what: 'the runs' });
  runs.end();
  await Promise.all(asked);
});
