import { eventRegistry, FingerprintReleased, newId } from '@token-vault/contracts';
import { noRevision } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { expect, it } from 'vitest';
import { change } from '../../src/aggregates/decider.ts';
import { systemContext } from '../../src/aggregates/system-context.ts';

const stream = 'fingerprint-a';
const context = systemContext(newId(), 'upgrade', { now: () => new Date() });
const eventOf = (tokenId: string) =>
  context.event(FingerprintReleased, { fingerprint: 'f', token_id: tokenId });

function openStream() {
  const store = createMemoryEventStore({ registry: eventRegistry });
  const load = async () => {
    const names: string[] = [];
    let revision = noRevision;
    for await (const event of store.readStream(stream)) {
      if (event.type === 'FingerprintReleased') names.push(event.data.token_id);
      revision = event.revision;
    }
    return { names, revision };
  };
  return { store, load };
}

it('16 changes at once are each decided on the state before them', async () => {
  const { store, load } = openStream();
  const work = Array.from({ length: 16 }, () =>
    change({ store, stream, load, decide: ({ names }) => ({ events: [eventOf(`${names.length}`)] }) }),
  );
  await Promise.all(work);
  expect((await load()).names).toEqual(Array.from({ length: 16 }, (_, index) => `${index}`));
});

it('a decision is appended at the revision that it was made on, also when the loaded state changes meanwhile', async () => {
  const { store, load } = openStream();
  const shared = await load();
  let isFirst = true;
  const changed = change({
    store,
    stream,
    load: async () => Object.assign(shared, isFirst ? {} : await load()),
    async decide({ names }) {
      const events = [eventOf(`after ${names.length}`)];
      if (isFirst) {
        isFirst = false;
        await store.append(stream, [eventOf('other')], 'no-stream');
        Object.assign(shared, await load());
      }
      return { events };
    },
  });
  await changed;
  expect((await load()).names).toEqual(['other', 'after 1']);
});

it('nothing is appended when there is nothing to change', async () => {
  const { store, load } = openStream();
  const { position } = await change({ store, stream, load, decide: () => ({ events: [] }) });
  expect(position).toBeUndefined();
  expect((await load()).revision).toBe(noRevision);
});

it('new keys are destroyed when there is nothing to change', async () => {
  const { store, load } = openStream();
  const destroyed: string[] = [];
  const destroyKeys = async (keyIds: readonly string[]) => destroyed.push(...keyIds);
  await change({ store, stream, load, destroyKeys, decide: () => ({ events: [], keys: ['key'] }) });
  expect(destroyed).toEqual(['key']);
});
