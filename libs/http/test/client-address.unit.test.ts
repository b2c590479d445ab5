import type { IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { clientAddress, trustOf } from '../src/index.ts';

const from = (remoteAddress: string, forwarded?: string) =>
  ({ headers: { 'x-forwarded-for': forwarded }, socket: { remoteAddress } }) as unknown as IncomingMessage;

it.each([
  ['of a peer that is not trusted', from('203.0.113.9', '198.51.100.1'), '203.0.113.9'],
  ['that a trusted peer tells', from('10.0.0.1', '198.51.100.1'), '198.51.100.1'],
  [
    'before which only trusted peers are, not one that the client tells',
    from('10.0.0.1', '198.51.100.66, 198.51.100.1, 10.0.0.2'),
    '198.51.100.1',
  ],
  ['that is farthest where all are trusted', from('10.0.0.1', '10.0.0.3, 10.0.0.2'), '10.0.0.3'],
  ['of a trusted peer that tells none', from('10.0.0.1'), '10.0.0.1'],
])('the address of the client is the one %s', (_which, request, expected) => {
  expect(clientAddress(request, trustOf('10.0.0.0/8'))).toBe(expected);
});
