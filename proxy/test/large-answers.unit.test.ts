import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { LargeAnswers } from '../src/large-answers.ts';

const holder = { tenantId: 't', applicationId: 'a' };
const mostBytes = 1024 * 1024;
const bodyOf = (size: number) => Readable.from([Buffer.alloc(size)], { objectMode: false });

/** Holds all places of the application until `end`. */
function full() {
  const answers = new LargeAnswers();
  const end = Promise.withResolvers<void>();
  const read = (body: Readable) =>
    answers.read(
      { body, mostBytes, holder },
      () => undefined,
      () => end.promise,
    );
  const running = Array.from({ length: 16 }, () => read(bodyOf(20_000)));
  return { answers, read, end: () => (end.resolve(), Promise.all(running)) };
}

it('an answer that breaks off while it waits for a place gives up, and leaves the places to others', async () => {
  const { answers, read, end } = full();
  const body = bodyOf(20_000);
  const waiting = read(body);
  await expect.poll(() => answers.waiting).toBe(1);
  body.destroy(new Error('reset'));
  await expect(waiting).rejects.toThrow('reset');
  expect(answers.waiting).toBe(0);
  await end();
});

it('an answer that is too large, or whose run fails, gives its place back', async () => {
  const answers = new LargeAnswers();
  const read = (size: number, run: () => Promise<void>) =>
    answers.read({ body: bodyOf(size), mostBytes, holder }, () => undefined, run);
  for (let each = 0; each < 20; each++) {
    await expect(read(mostBytes + 1, async () => undefined)).rejects.toMatchObject({
      code: 'destination_failed',
    });
    await expect(read(20_000, () => Promise.reject(new Error('code')))).rejects.toThrow('code');
  }
});
