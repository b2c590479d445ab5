import { existsSync, globSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const source = path.resolve(import.meta.dirname, '../src');
/** Those that decide about a stream. */
const features = globSync('*/decider.ts', { cwd: source })
  .map((file) => path.dirname(file))
  .filter((name) => name !== 'aggregates');

describe('a feature of the command side', () => {
  it.each(features)('%s has its routes, its handlers, its decider and its state', (feature) => {
    const files = ['routes.ts', 'handlers.ts', 'decider.ts', 'state.ts'];
    expect(files.filter((file) => !existsSync(path.join(source, feature, file)))).toEqual([]);
  });

  it('is looked at here', () => {
    expect(features).toEqual(expect.arrayContaining(['invocations', 'tokens']));
  });
});
