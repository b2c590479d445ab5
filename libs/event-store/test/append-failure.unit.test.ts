import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { AppendUnansweredError } from '../src/index.ts';
import { asAppendFailure } from '../src/postgres/append-failure.ts';

const reported = (severity: string, code: string): pg.DatabaseError =>
  Object.assign(new pg.DatabaseError('refused', 7, 'error'), { severity, code });
const isUnanswered = (error: Error) => asAppendFailure(error) instanceof AppendUnansweredError;

describe('an append that Postgres did not confirm', () => {
  it.each([
    ['ERROR', '53200'],
    ['ERROR', '57014'],
    ['ERROR', '40001'],
    ['ERROR', '22P05'],
  ])('was not done after %s %s', (severity, code) => {
    expect(isUnanswered(reported(severity, code))).toBe(false);
  });

  it.each([
    // A WAL that cannot be flushed at the commit: the disk is full, or fails.
    ['PANIC', '53100'],
    ['PANIC', '58030'],
    // On a disk that is read-only since it failed, and beyond a quota.
    ['PANIC', '42501'],
    ['PANIC', 'XX000'],
    ['FATAL', '53300'],
    ['FATAL', '57P01'],
    ['ERROR', '57P01'],
    ['ERROR', '08006'],
  ])('may have been done after %s %s', (severity, code) => {
    expect(isUnanswered(reported(severity, code))).toBe(true);
  });

  it('may have been done when the connection was lost', () => {
    expect(isUnanswered(Object.assign(new Error('lost'), { code: 'ECONNRESET' }))).toBe(true);
  });
});
