import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLogger } from '../src/index.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

interface Line {
  readonly msg: string;
  readonly count?: number;
  readonly projection?: string;
}

function createLines() {
  const lines: Line[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  return { lines, logger: createLogger({ service: 'test', destination }) };
}

describe('equal warnings', () => {
  it('are one line, and a second line with their number', () => {
    const { lines, logger } = createLines();
    for (let n = 1; n <= 552; n++)
      logger.warn({ projection: `p${n}`, error_code: '57P01', stack: `at ${n}` }, 'projection interrupted');
    expect(lines).toHaveLength(1);
    vi.advanceTimersByTime(30_000);
    expect(lines.map(({ count, projection }) => ({ count, projection }))).toEqual([
      { count: undefined, projection: 'p1' },
      { count: 551, projection: 'p552' },
    ]);
    logger.warn({ projection: 'p1', error_code: '57P01' }, 'projection interrupted');
    expect(lines).toHaveLength(3);
    vi.advanceTimersByTime(30_000);
    expect(lines).toHaveLength(3);
  });

  it('are not those of another kind, those that name an entity or a request, nor errors', () => {
    const { lines, logger } = createLines();
    for (const error_code of ['57P01', 'ECONNREFUSED']) logger.warn({ error_code }, 'lost');
    for (const reason of ['keys', 'reads']) logger.warn({ reason }, 'lost');
    for (const trace_id of ['a', 'b', 'b']) logger.warn({ trace_id }, 'lost');
    for (const tenant_id of ['a', 'b']) logger.warn({ tenant_id }, 'lost');
    for (let n = 0; n < 3; n++) logger.error({}, 'lost');
    expect(lines).toHaveLength(12);
  });
});
