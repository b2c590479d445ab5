import { describe, expect, it } from 'vitest';
import { parseChecked, UnacceptableJsonError } from '../src/sandbox/checked-json.ts';
import { defaultSandboxLimits as limits } from '../src/sandbox/limits.ts';
import { createLineReader, decodeFromChild, ProtocolError } from '../src/sandbox/messages.ts';
import { readRunOutcome } from '../src/sandbox/read-outcome.ts';

const console = { lines: [], truncated: false };

describe('JSON of a guest', () => {
  it('is parsed when it is within its bounds', () => {
    expect(parseChecked('{"a":[1,{"b":null}]}', { depth: 3, nodes: 10 })).toEqual({ a: [1, { b: null }] });
  });

  it.each(['[[[[1]]]]', `[${'1,'.repeat(20)}1]`, '{"a":{"__proto__":{}}}', 'nope', ''])(
    '%s is refused',
    (text) => {
      expect(() => parseChecked(text, { depth: 3, nodes: 10 })).toThrow(UnacceptableJsonError);
    },
  );

  it('of half a million levels does not exhaust the stack', () => {
    const text = `${'['.repeat(500_000)}${']'.repeat(500_000)}`;
    expect(() => parseChecked(text, { depth: 100, nodes: 1e6 })).toThrow(UnacceptableJsonError);
  });
});

describe('a message of a child', () => {
  it.each([
    'nope',
    '[]',
    'null',
    '{}',
    '{"type":"nope"}',
    '{"type":"call","run":-1,"call":1,"method":"fetch","payload":""}',
    '{"type":"call","run":1,"call":1.5,"method":"fetch","payload":""}',
    '{"type":"call","run":1,"call":1,"method":{},"payload":""}',
    '{"type":"outcome","outcome":{"kind":"killed","console":{"lines":[]}}}',
    '{"type":"outcome","run":1,"outcome":{"kind":"succeeded","text":"{}"}}',
    '{"type":"outcome","run":1,"outcome":{"kind":"overloaded","console":{"lines":[]}}}',
    '{"type":"outcome","run":1,"outcome":{"kind":"killed","console":{"lines":[{"level":"x","text":""}]}}}',
    `{"type":"outcome","run":1,"outcome":{"kind":"killed","console":{"lines":[{"level":"log","text":"${'x'.repeat(70_000)}"}]}}}`,
  ])('that no sound child sends is refused: %.80s', (line) => {
    expect(() => decodeFromChild(line, limits)).toThrow(ProtocolError);
  });

  it('is read from chunks with any borders, and bounded', () => {
    const lines: string[] = [];
    const read = createLineReader(10, (line) => lines.push(line));
    for (const part of ['a', 'bé', '\n', '\nc\nd']) read(Buffer.from(part));
    expect(lines).toEqual(['abé', '', 'c']);
    expect(() => read(Buffer.from('0123456789ab'))).toThrow(ProtocolError);
  });
});

describe('the outcome that a child reports', () => {
  it.each(['[]', '1', '{"__proto__":1}', '['.repeat(200)])('with the result %.20s is refused', (text) => {
    expect(readRunOutcome({ kind: 'succeeded', text, console }, limits).kind).toBe('not-serialisable');
  });

  it.each([
    '{}',
    '{"status":200,"detail":"OK","errors":{}}',
    '{"status":401,"detail":"d","errors":{"a":[1]}}',
    '{"status":"401","detail":"d","errors":{}}',
    '{"status":99,"detail":"d","errors":{},"custom":{}}',
    '{"status":1e9,"detail":"d","errors":{},"custom":{}}',
    'nope',
  ])('with the failure %s is a plain 500', (text) => {
    expect(readRunOutcome({ kind: 'failed', text, console }, limits)).toMatchObject({
      kind: 'failed',
      status: 500,
      detail: 'Reactor Runtime Error',
    });
  });

  it('cannot set headers of the framing, of the service or for a proxy', () => {
    const headers = {
      'Transfer-Encoding': 'chunked',
      'SVC-TRACE-ID': 'x',
      'x ': 'a',
      'X-Accel-Redirect': '/metrics',
      'Set-Cookie': 'a=b',
      'Content-Encoding': 'gzip',
      'RateLimit-Limit': '1',
      'X-RateLimit-Remaining': '1',
      'X-Ok': 'yes',
      'X-Split': 'a\r\nb: c',
    };
    const text = JSON.stringify({ status: 200, detail: 'd', errors: {}, custom: { headers } });
    expect(readRunOutcome({ kind: 'failed', text, console }, limits)).toEqual({
      kind: 'failed',
      console,
      status: 200,
      detail: 'Custom HTTP Response',
      errors: {},
      custom: { headers: { 'X-Ok': 'yes' } },
    });
  });
});
