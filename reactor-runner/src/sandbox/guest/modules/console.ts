import type { Internal } from '../bridge.ts';
import { format } from './inspect.ts';

declare const internal: Internal;

const limits = { lines: 200, chars: 65_536 };
let lines = 0;
let chars = 0;

function print(level: string, values: unknown[]): void {
  if (lines > limits.lines || chars > limits.chars) return;
  let text: string;
  try {
    text = format(...values);
  } catch {
    text = '[a value that cannot be shown]';
  }
  lines += 1;
  chars += text.length;
  internal.log(level, text);
}

const counts = new Map<string, number>();

export const guestConsole = {
  log: (...values: unknown[]) => print('log', values),
  info: (...values: unknown[]) => print('info', values),
  warn: (...values: unknown[]) => print('warn', values),
  error: (...values: unknown[]) => print('error', values),
  debug: (...values: unknown[]) => print('debug', values),
  trace: (...values: unknown[]) => print('debug', values),
  dir: (value: unknown) => print('log', [value]),
  table: (value: unknown) => print('log', [value]),
  group: (...values: unknown[]) => print('log', values),
  groupEnd: () => undefined,
  time: () => undefined,
  timeEnd: () => undefined,
  timeLog: () => undefined,
  count: (label = 'default') => {
    const next = (counts.get(label) ?? 0) + 1;
    counts.set(label, next);
    print('log', [`${label}: ${next}`]);
  },
  assert: (condition: unknown, ...values: unknown[]) => {
    if (!condition) print('error', ['Assertion failed:', ...values]);
  },
};
