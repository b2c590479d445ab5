import { globSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import proofs from '../../scripts/proofs.json' with { type: 'json' };

const root = path.resolve(import.meta.dirname, '../..');

describe('npm run test:proof', () => {
  // To vitest, a name that fits no file is no error as long as another does.
  it.each(proofs)('finds tests at %s', (name) => {
    expect(globSync(`${name}*.test.ts`, { cwd: root }).length).toBeGreaterThan(0);
  });
});
