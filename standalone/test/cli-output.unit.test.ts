import { DomainError, printable, ValidationError } from '@token-vault/contracts';
import type { Command } from 'commander';
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { CommandError, complaintOf } from '../src/cli/failure.ts';
import { createProgram } from '../src/cli/program.ts';
import { duration, progressLine, reportProgress } from '../src/cli/progress-line.ts';
import { printableJson, table } from '../src/cli/table.ts';
import type { Terminal } from '../src/cli/terminal.ts';

function terminalOf(isTerminal: boolean) {
  const lines: string[] = [];
  const rewritten: string[] = [];
  const terminal: Terminal = {
    environment: {},
    print: () => {},
    printDrained: async () => {},
    note: (text) => void lines.push(text),
    rewrite: isTerminal ? (text) => void rewritten.push(text) : undefined,
    interrupted: new AbortController().signal,
  };
  return { terminal, lines, rewritten };
}

describe('the progress of a rebuild from EventStoreDB', () => {
  it('counts events, and takes the share from positions, which are bytes there', () => {
    const line = progressLine({
      done: 8_000_000,
      total: 16_000_000,
      doneHere: 8_000_000,
      elapsedMs: 2_000,
      counted: 12_000,
    });
    expect(line).toBe('[############------------]   50 %  12,000 events  6,000/s  2 s left');
  });
});

describe('an error of the operating system', () => {
  it.each([
    [
      'a missing directory',
      () => open('/nowhere/file', 'wx'),
      '/nowhere/file: there is no such file or directory',
    ],
    [
      'a file on the way',
      () => open('/dev/null/file', 'wx'),
      '/dev/null/file: a part of the path is not a directory',
    ],
  ])('about %s is one line of words with the path', async (_, work, words) => {
    const error = await work().then(
      () => undefined,
      (caught: unknown) => caught,
    );
    expect(complaintOf(error)).toBe(words);
  });
});

describe('the progress of long work', () => {
  it('has a bar, a rate and an estimate', () => {
    expect(progressLine({ done: 5_000, total: 10_000, doneHere: 5_000, elapsedMs: 2_000 })).toBe(
      '[############------------]   50 %  5,000 of 10,000 events  2,500/s  2 s left',
    );
  });

  it('computes its rate from this run alone', () => {
    const line = progressLine({ done: 9_000, total: 10_000, doneHere: 1_000, elapsedMs: 1_000 });
    expect(line).toContain('1,000/s  1 s left');
  });

  it('never passes its total, which was read before the last events were appended', () => {
    const line = progressLine({ done: 1_040, total: 1_000, doneHere: 1_040, elapsedMs: 1_000 });
    expect(line).toContain('100 %  1,000 of 1,000 events');
  });

  it('names its unit when it does not count events', () => {
    const { terminal, lines } = terminalOf(false);
    reportProgress(terminal, 'import', 0).update(3, 3, 'tokens');
    expect(lines.join()).toContain('import  [########################]  100 %  3 of 3 tokens');
  });

  it('of no work is complete, without a rate', () => {
    expect(progressLine({ done: 0, total: 0, doneHere: 0, elapsedMs: 0 })).toContain('100 %  0 of 0 events');
  });

  it.each([
    [0.2, '1 s'],
    [59.5, '1 min 0 s'],
    [125, '2 min 5 s'],
    [7_380, '2 h 3 min'],
  ])('of %d s is told as %s', (seconds, text) => expect(duration(seconds)).toBe(text));

  it('rewrites one line on a terminal, and ends with a new one', () => {
    const { terminal, lines, rewritten } = terminalOf(true);
    let nowMs = 0;
    const report = reportProgress(terminal, 'work', 0, () => nowMs);
    for (let done = 1; done <= 100; done++, nowMs += 10) report.update(done, 100);
    report.end();
    expect(rewritten.length).toBeGreaterThan(5);
    expect(rewritten.length).toBeLessThan(20);
    expect(rewritten.at(-1)).toContain('100 of 100');
    expect(lines).toEqual(['']);
  });

  it('adds a line from time to time without a terminal', () => {
    const { terminal, lines } = terminalOf(false);
    let nowMs = 0;
    const report = reportProgress(terminal, 'work', 0, () => nowMs);
    for (let done = 1; done <= 100; done++, nowMs += 100) report.update(done, 100);
    report.end();
    expect(lines).toHaveLength(2);
    expect(lines.at(-1)).toContain('100 of 100');
  });
});

describe('an error message', () => {
  it('is one line that names the setting to change', () => {
    expect(complaintOf(new ValidationError({ name: ['is too long', 'is odd'] }))).toBe(
      'name is too long, is odd',
    );
    expect(complaintOf(new DomainError('not_found', 'The tenant was not found.'))).toBe(
      'The tenant was not found.',
    );
  });

  it('cannot control the terminal by what it names of the database', () => {
    const error = new CommandError('token has 1 rows too many (id=\u001B[31m\n)');
    expect(complaintOf(error)).toBe('token has 1 rows too many (id=\uFFFD[31m\uFFFD)');
  });

  it('never has the message of an unknown error: it may hold the values of a row', () => {
    const error = Object.assign(new Error('duplicate key 4242424242424242'), { code: '23505' });
    expect(complaintOf(error)).toMatch(/^failed: Error 23505 at .+$/);
    expect(complaintOf(error)).not.toContain('4242');
    expect(complaintOf('4242')).toBe('failed');
  });
});

it('a table aligns its columns and ends no line with blanks', () => {
  expect(table(['a', 'long'], [['xyz', ''], ['', '1']])).toBe('A    LONG\nxyz\n     1'); // prettier-ignore
});

describe('the page of the commands', () => {
  const namesOf = (command: Command, before: readonly string[] = []): string[] =>
    command.commands.length === 0
      ? [before.join(' ')]
      : command.commands.flatMap((each) => namesOf(each, [...before, each.name()]));

  it('has each command', () => {
    const page = readFileSync(path.resolve(import.meta.dirname, '../../docs/reference/commands.md'), 'utf8');
    const names = namesOf(createProgram(terminalOf(false).terminal));
    expect(names).toContain('applications revoke-key');
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });
});

it('a name that a tenant chose cannot control the terminal, in a table or as JSON', () => {
  const name = 'a\u001B[31m\u009B31m\u202E\u007F\u{E0001}é😀';
  expect(printable(name)).toBe('a\uFFFD[31m\uFFFD31m\uFFFD\uFFFD\uFFFDé😀');
  expect(printableJson({ name })).toBe('{"name":"a\\u001b[31m\\u009b31m\\u202e\\u007f\\udb40\\udc01é😀"}');
  expect(JSON.parse(printableJson({ name }))).toEqual({ name });
});
