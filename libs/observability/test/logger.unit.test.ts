import { describe, expect, it } from 'vitest';
import { createLogger, errorFields } from '../src/index.ts';

const canary = '4111111111111111';

function logged(write: (logger: ReturnType<typeof createLogger>) => void): string {
  let lines = '';
  write(
    createLogger({ service: 'test', level: 'debug', destination: { write: (line) => void (lines += line) } }),
  );
  return lines;
}

describe('a line of the log', () => {
  it('has only fields of the list, and of those only plain values', () => {
    const fields = {
      trace_id: 't',
      status: 500,
      body: canary,
      data: { number: canary },
      headers: { 'svc-api-key': canary },
      path: { toJSON: () => canary },
      err: new Error(canary),
    };
    const line = logged((logger) => logger.error(fields, 'request failed'));
    expect(JSON.parse(line)).toMatchObject({ trace_id: 't', status: 500, service: 'test' });
    expect(line).not.toContain(canary);
    expect(Object.keys(JSON.parse(line) as object).sort()).toEqual(
      ['level', 'msg', 'service', 'status', 'time', 'trace_id'].sort(),
    );
  });

  it('contains the kind, code and place of an error, not its message, for any number of lines of the message', () => {
    class SpecialError extends Error {
      readonly code = '22P02';
    }
    const error = new SpecialError(`first ${canary}\n    at ${canary} of a query\nthird ${canary}`);
    const fields = errorFields(error);
    const line = logged((logger) => logger.warn(fields, 'it failed'));
    expect(fields).toMatchObject({ error_name: 'SpecialError', error_code: '22P02' });
    expect(fields.stack).toContain('logger.unit.test.ts');
    expect(line).not.toContain(canary);
  });

  it('logs only the type of a thrown value', () => {
    expect(errorFields(canary)).toEqual({ error_name: 'string' });
  });
});
