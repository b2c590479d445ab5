import {
  ConsoleSessionEnded,
  ConsoleSessionExpired,
  ConsoleSessionOpened,
  ConsoleSessionUsed,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { fact, type Fact } from '../../src/aggregates/decider.ts';
import { consoleSessionDecider, type ConsoleSessionCommand } from '../../src/console/decider.ts';
import { isOver } from '../../src/console/state.ts';
import { later, now, specify } from '../aggregates/specification.ts';

const { given } = specify(consoleSessionDecider);
const minuteMs = 60_000;
const minutes = (count: number): string => later(count * minuteMs).toISOString();

const id = '00000000-0000-4000-8000-0000000000e1';
const secretHash = 'a'.repeat(64);
const members = [
  {
    application_id: '00000000-0000-4000-8000-0000000000a1',
    application_type: 'management' as const,
    key_hash: 'b'.repeat(64),
  },
];
const at = (moment: string) => new Date(moment);
const open = (notAfter?: string): ConsoleSessionCommand => ({
  kind: 'open',
  id,
  secretHash,
  members,
  notAfter,
  now,
});
const use = (moment: string): ConsoleSessionCommand => ({ kind: 'use', now: at(moment) });
const expire = (moment: string): ConsoleSessionCommand => ({ kind: 'expire', now: at(moment) });

const next = '00000000-0000-4000-8000-0000000000e2';
const replace = (hash = secretHash, by: string | undefined = next): ConsoleSessionCommand => ({
  kind: 'replace',
  id,
  secretHash: hash,
  by,
});
const end: ConsoleSessionCommand = { kind: 'end', id, reason: 'signed_out' };
const replaced = fact(ConsoleSessionEnded, { session_id: id, reason: 'replaced', replaced_by: next });
const signedOut = fact(ConsoleSessionEnded, { session_id: id, reason: 'signed_out' });

const opened = {
  session_id: id,
  secret_hash: secretHash,
  members,
  ends_at: minutes(30),
  expires_at: minutes(12 * 60),
};

describe('a session of the console', () => {
  it('ends after 30 minutes without use, and after 12 hours in any case', () => {
    given().when(open()).then(fact(ConsoleSessionOpened, opened));
  });

  it('that replaces another one ends no later than that one', () => {
    given()
      .when(open(minutes(90)))
      .then(fact(ConsoleSessionOpened, { ...opened, expires_at: minutes(90) }));
    given()
      .when(open(minutes(20)))
      .then(fact(ConsoleSessionOpened, { ...opened, ends_at: minutes(20), expires_at: minutes(20) }));
  });

  it('is replaced once, by a request with its secret, and names the session that replaces it', () => {
    const begun = given(fact(ConsoleSessionOpened, opened));
    begun.when(replace()).then(replaced);
    begun.when(replace('c'.repeat(64))).thenNothing();
    given().when(replace()).thenNothing();
    const ended = given(fact(ConsoleSessionOpened, opened), replaced);
    ended.when(replace(secretHash, id)).thenNothing();
    expect(ended.state).toEqual({ kind: 'ended', secretHash, replacedBy: next });
    const expired = fact(ConsoleSessionExpired, { session_id: id });
    given(fact(ConsoleSessionOpened, opened), expired).when(replace()).thenNothing();
  });

  it('is ended once, and cannot be opened when it was ended before', () => {
    given(fact(ConsoleSessionOpened, opened)).when(end).then(signedOut);
    given(fact(ConsoleSessionOpened, opened), signedOut).when(end).thenNothing();
    given().when(end).then(signedOut);
    given(signedOut).when(open()).thenRefused({ code: 'conflict' });
  });

  it('is extended by use, which is stored once in 5 minutes', () => {
    const begun = given(fact(ConsoleSessionOpened, opened));
    begun.when(use(minutes(4))).thenNothing();
    begun.when(use(minutes(5))).then(fact(ConsoleSessionUsed, { session_id: id, ends_at: minutes(35) }));
    begun.when(use(minutes(29))).then(fact(ConsoleSessionUsed, { session_id: id, ends_at: minutes(59) }));
  });

  it('is not opened again by use after its end', () => {
    given(fact(ConsoleSessionOpened, opened))
      .when(use(minutes(30)))
      .thenNothing();
    given(fact(ConsoleSessionOpened, opened))
      .when(expire(minutes(30)))
      .then(fact(ConsoleSessionExpired, { session_id: id }));
    given(fact(ConsoleSessionOpened, opened))
      .when(expire(minutes(29)))
      .thenNothing();
  });

  it('that is used all the time ends after 12 hours, by fewer than 145 events', () => {
    const past: Fact[] = [fact(ConsoleSessionOpened, opened)];
    let minute = 0;
    for (; ; minute += 1) {
      const { state } = given(...past);
      if (state.kind !== 'open' || isOver(state, at(minutes(minute)))) break;
      past.push(...consoleSessionDecider.decide(state, use(minutes(minute))));
    }
    expect(minute).toBe(12 * 60);
    expect(past.length).toBeLessThan(145);
  });
});
