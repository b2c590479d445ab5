import {
  newEvent,
  type sessionEvents,
  TokenCreated,
  TokenDeleted,
  TokenSigned,
  type EventMetadata,
  type TypeIn,
} from '@token-vault/contracts';
import { evolveBy, noRevision, unchanged, type Position, type RecordedEvent } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';

// The compiler must refuse these lines: `npm run types` fails when one of them compiles.
const metadata = {} as EventMetadata;
const place = { stream: 's', revision: noRevision, position: '1' as Position };
const deleted = { token_id: 't', token_type: 'token', key_ids: [] };

it('a fact has the data of its event', () => {
  expect(fact(TokenDeleted, deleted)).toMatchObject({ type: 'TokenDeleted', data: deleted });
  // @ts-expect-error a misspelt property
  fact(TokenDeleted, { tokenid: 't', token_type: 'token', key_ids: [] });
  // @ts-expect-error a missing property
  fact(TokenDeleted, { token_id: 't', key_ids: [] });
  // @ts-expect-error a property of another event
  fact(TokenDeleted, { ...deleted, fingerprint: 'f' });
  // @ts-expect-error the data of another event
  fact(TokenCreated, deleted);
  // @ts-expect-error the signature is added by the append
  fact(TokenSigned, { token_id: 't', token_type: 'token', signature: 'x' });
});

it('an event has the data of its type, when it is made and when it is read', () => {
  const tokenOf = (event: RecordedEvent): string | undefined =>
    event.type === 'TokenDeleted' ? event.data.token_id : undefined;
  type Common = keyof RecordedEvent['data'];
  // @ts-expect-error not every event has this property
  const name: Common = 'token_id';
  const event = { ...newEvent(TokenDeleted, deleted, { id: 'e', metadata }), ...place };
  expect([name, tokenOf(event)]).toEqual(['token_id', 't']);
  // @ts-expect-error a misspelt property
  newEvent(TokenDeleted, { ...deleted, keyids: [] }, { id: 'e', metadata });
});

it('every event of an aggregate has its change of the state; events of others leave it as it is', () => {
  const all = {
    SessionOpened: () => 'open',
    SessionAuthorized: unchanged<string>,
    SessionExpired: () => 'over',
  };
  const evolve = evolveBy<string, TypeIn<typeof sessionEvents>>(all);
  const { SessionExpired: _missing, ...incomplete } = all;
  // @ts-expect-error a missing type
  evolveBy<string, TypeIn<typeof sessionEvents>>(incomplete);
  const event = { ...newEvent(TokenDeleted, deleted, { id: 'e', metadata }), ...place };
  const later = { ...event, type: 'constructor' } as unknown as RecordedEvent;
  expect([evolve('before', event), evolve('before', later)]).toEqual(['before', 'before']);
});
