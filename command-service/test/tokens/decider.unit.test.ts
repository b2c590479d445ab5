import {
  FingerprintClaimVoided,
  TokenCreated,
  TokenCvcPurged,
  TokenDeleted,
  TokenExpired,
  TokenSigned,
  TokenUpdated,
  type SealedValue,
  type TokenContent,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { tokenDecider, type TokenCommand } from '../../src/tokens/decider.ts';
import { later, now, specify } from '../aggregates/specification.ts';

const { given } = specify(tokenDecider);
const keyId = (n: number): string => `00000000-0000-4000-8000-00000000000${n}`;
const sealed = (n: number) => `sv1.${keyId(n)}.${'A'.repeat(60)}` as SealedValue;
const content = (changes: Partial<TokenContent> = {}): TokenContent => ({
  data: sealed(1),
  containers: ['/general/high/'],
  ...changes,
});
const identity = { token_id: 'tok', token_type: 'token' };
const created = (changes: Partial<TokenContent> = {}) =>
  fact(TokenCreated, { ...identity, ...content(changes) });
const create = (changes: Partial<TokenContent> = {}) =>
  ({ kind: 'create', id: 'tok', type: 'token', content: content(changes), now }) satisfies TokenCommand;
const ended = (...keyIds: string[]) => ({ ...identity, key_ids: keyIds });
const soon = later(1000).toISOString();
const cvc = { cvc: sealed(2), cvc_expires_at: soon };

describe('creating a token', () => {
  it('is possible under a new id', () => given().when(create()).then(created()));
  it('is refused while the id is taken', () =>
    given(created()).when(create()).thenRefused({ code: 'token_id_taken' }));
  it('is possible under the id of a deleted token', () =>
    given(created(), fact(TokenDeleted, ended(keyId(1))))
      .when(create())
      .then(created()));
  it('is possible where a claim was voided', () =>
    given(fact(FingerprintClaimVoided, { fingerprint: 'f', token_id: 'tok' }))
      .when(create())
      .then(created()));
  it('ends an expired token that was not swept', () =>
    given(created({ expires_at: soon }))
      .when({ ...create(), now: later(1000) })
      .then(fact(TokenExpired, ended(keyId(1))), created()));
  it('is refused a millisecond before the expiry', () =>
    given(created({ expires_at: soon }))
      .when({ ...create(), now: later(999) })
      .thenRefused({ code: 'token_id_taken' }));
});

describe('updating a token', () => {
  const updated = (key_ids: string[], changes: Partial<TokenContent>) =>
    fact(TokenUpdated, {
      ...identity,
      ...content(changes),
      created_by: expect.any(String) as string,
      created_at: expect.any(String) as string,
      key_ids,
    });
  const update: TokenCommand = { kind: 'update', content: content({ metadata: { a: 'b' } }), now };
  it('records the whole token after the update', () =>
    given(created())
      .when(update)
      .then(updated([], { metadata: { a: 'b' } })));
  it('decides the destruction of the key of a cvc that it replaces or removes', () => {
    const replaced = content({ ...cvc, cvc: sealed(3) });
    given(created(cvc))
      .when({ ...update, content: replaced })
      .then(updated([keyId(2)], { ...cvc, cvc: sealed(3) }));
    given(created(cvc))
      .when(update)
      .then(updated([keyId(2)], { metadata: { a: 'b' } }));
  });
  it('finds no absent token', () => given().when(update).thenRefused({ code: 'not_found' }));
  it('finds no deleted token', () =>
    given(created(), fact(TokenDeleted, ended(keyId(1))))
      .when(update)
      .thenRefused({ code: 'not_found' }));
  it('finds no expired token', () =>
    given(created({ expires_at: now.toISOString() }))
      .when(update)
      .thenRefused({ code: 'not_found' }));
});

describe('deleting a token', () => {
  const remove: TokenCommand = { kind: 'delete', now };
  it('names every key to be destroyed', () =>
    given(created(cvc))
      .when(remove)
      .then(fact(TokenDeleted, ended(keyId(1), keyId(2)))));
  it('names a key once', () =>
    given(created({ ...cvc, cvc: sealed(1) }))
      .when(remove)
      .then(fact(TokenDeleted, ended(keyId(1)))));
  it('finds no absent token', () => given().when(remove).thenRefused({ code: 'not_found' }));
  it('finds no expired token', () =>
    given(created({ expires_at: now.toISOString() }))
      .when(remove)
      .thenRefused({ code: 'not_found' }));
});

describe('the expiry of a token or cvc', () => {
  const at = (kind: 'expire' | 'purge-cvc', ms: number): TokenCommand => ({ kind, now: later(ms) });
  it('expires a token at its instant', () =>
    given(created({ expires_at: soon }))
      .when(at('expire', 1000))
      .then(fact(TokenExpired, ended(keyId(1)))));
  it('compares instants, not texts', () =>
    given(created({ expires_at: '2030-01-01T05:30:01+05:30' }))
      .when(at('expire', 1000))
      .then(fact(TokenExpired, ended(keyId(1)))));
  it('does not change a token before', () =>
    given(created({ expires_at: soon }))
      .when(at('expire', 999))
      .thenNothing());
  it('does not change a token without expiry', () => given(created()).when(at('expire', 1e12)).thenNothing());
  it('expires nothing twice', () =>
    given(created({ expires_at: soon }), fact(TokenExpired, ended(keyId(1))))
      .when(at('expire', 2000))
      .thenNothing());
  it('purges a cvc, and keeps the other data', () =>
    given(created(cvc))
      .when(at('purge-cvc', 1000))
      .then(fact(TokenCvcPurged, ended(keyId(2)))));
  it('purges no cvc early, no absent one, and none twice', () => {
    given(created(cvc)).when(at('purge-cvc', 999)).thenNothing();
    given(created()).when(at('purge-cvc', 1e12)).thenNothing();
    given().when(at('purge-cvc', 1e12)).thenNothing();
    given(created(cvc), fact(TokenCvcPurged, ended(keyId(2))))
      .when(at('purge-cvc', 2000))
      .thenNothing();
  });
});

describe('a token', () => {
  const details = (...past: Parameters<typeof given>) => {
    const { state } = given(...past);
    return state.kind === 'present' ? state.details : undefined;
  };
  it('names its creator and its last editor', () => {
    const updated = {
      ...fact(TokenUpdated, { ...identity, ...content() }),
      actor: { kind: 'session', id: 'other' } as const,
      at: later(5),
    };
    expect(details(created(), updated)).toMatchObject({
      createdBy: 'app',
      createdAt: now.toISOString(),
      modifiedBy: 'other',
      modifiedAt: later(5).toISOString(),
    });
  });
  it('is the content of its last event alone', () =>
    expect(
      details(created({ mask: 'x', ...cvc }), fact(TokenUpdated, { ...identity, ...content() }))?.content,
    ).toEqual(content()));
  it('forgets its cvc when that is purged', () =>
    expect(details(created(cvc), fact(TokenCvcPurged, ended(keyId(2))))?.content).toEqual(content()));
  it('is not changed by a voided claim', () =>
    expect(details(created(), fact(FingerprintClaimVoided, { fingerprint: 'f', token_id: 'tok' }))).toEqual(
      details(created()),
    ));
});

describe('the loss of a data key that the log does not explain', () => {
  const lose = (n: number): TokenCommand => ({ kind: 'lose-key', keyId: keyId(n), now });
  it('ends the token, and names all its keys', () =>
    given(created(cvc))
      .when(lose(1))
      .then(fact(TokenDeleted, ended(keyId(1), keyId(2)))));
  it('ends only the cvc when only its key is lost', () =>
    given(created(cvc))
      .when(lose(2))
      .then(fact(TokenCvcPurged, ended(keyId(2)))));
  it('is recorded as the expiry of the token when that has passed', () =>
    given(created({ expires_at: now.toISOString() }))
      .when(lose(1))
      .then(fact(TokenExpired, ended(keyId(1)))));
  it('does not affect a token that does not use the key, or has ended', () => {
    given(created()).when(lose(3)).thenNothing();
    given().when(lose(1)).thenNothing();
    given(created(), fact(TokenDeleted, ended(keyId(1))))
      .when(lose(1))
      .thenNothing();
  });
});

describe('signing a token of an older release', () => {
  it('adds a signature when there is none', () =>
    given(created()).when({ kind: 'sign' }).then(fact(TokenSigned, identity)));
  it('changes nothing when there is one, or no token', () => {
    given(fact(TokenCreated, { ...identity, ...content(), signature: `m1.0.${'A'.repeat(22)}` }))
      .when({ kind: 'sign' })
      .thenNothing();
    given().when({ kind: 'sign' }).thenNothing();
  });
});
