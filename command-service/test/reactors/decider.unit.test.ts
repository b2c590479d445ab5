import { ReactorCreated, ReactorDeleted, ReactorUpdated } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { describe, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { reactorDecider } from '../../src/reactors/decider.ts';
import { specify } from '../aggregates/specification.ts';

const { given } = specify(reactorDecider);
const id = '00000000-0000-4000-8000-0000000000b1';
const keyId = '00000000-0000-4000-8000-0000000000c1';
const applicationId = '00000000-0000-4000-8000-0000000000a1';
const sealedAs = (text: string) => `sv1.${keyId}.${text.padEnd(50, 'A')}` as SealedValue;

const content = { name: 'Pay', code: 'code', configuration: sealedAs('one'), applicationId };
const data = {
  reactor_id: id,
  name: 'Pay',
  code: 'code',
  configuration: content.configuration,
  application_id: applicationId,
};
const create = { kind: 'create', id, content } as const;
const created = fact(ReactorCreated, data);
const deleted = fact(ReactorDeleted, { reactor_id: id, key_ids: [keyId] });
const changed = { ...content, configuration: sealedAs('two'), applicationId: undefined };
const { application_id: _application, ...withoutApplication } = data;
const updated = fact(ReactorUpdated, { ...withoutApplication, configuration: changed.configuration });

describe('a reactor', () => {
  it('is created', () => given().when(create).then(created));
  it('is created once, however often the command is repeated', () =>
    given(created).when(create).thenNothing());
  it('is not created again by a repeat', () =>
    given(created, deleted).when(create).thenRefused({ code: 'conflict' }));
  it('is updated as a whole', () => given(created).when({ kind: 'update', content: changed }).then(updated));
  it('is not updated to what it is', () => given(created).when({ kind: 'update', content }).thenNothing());
  it('is deleted with the key of its configuration', () =>
    given(created, updated).when({ kind: 'delete' }).then(deleted));
  it.each([
    ['absent', []],
    ['deleted', [created, deleted]],
  ])('that is %s can neither be updated nor deleted', (_how, past) => {
    given(...past)
      .when({ kind: 'update', content })
      .thenRefused({ code: 'not_found' });
    given(...past)
      .when({ kind: 'delete' })
      .thenRefused({ code: 'not_found' });
  });
});
