import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { systemActors } from '../src/index.ts';

it('the vault has one fixed UUID for each of its tasks, and the reference of the log lists them all', () => {
  const reference = readFileSync(path.resolve(import.meta.dirname, '../../docs/reference/log.md'), 'utf8');
  const listed = [...reference.matchAll(/^\| `([\da-f-]{36})` \|/gm)].map(([, id]) => id);
  expect(listed).toEqual(Object.values(systemActors));
});
