import { describe, expect, it } from 'vitest';
import type { Draft } from '../canary/places.ts';
import type { World } from '../canary/world.ts';
import type { Entrance } from './entrances.ts';
import { foundBy, type Kind } from './kinds.ts';

/** Sends each refused request at each entrance. The answers and log entries equal those of the first entrance. */
export function testRefusals(
  world: () => World,
  kinds: readonly Kind[],
  entrances: readonly Entrance[],
): void {
  describe('the log entry of a refusal is the same', () => {
    it.each(kinds)('for $name, at every entrance', async ({ status, requests, entry, after }) => {
      try {
        for (const refused of await requests()) {
          const [http, ...others] = await Promise.all(entrances.map(({ ask }) => ask(world(), refused)));
          const expected = [...refused.drafts].map(([id, draft]) => [
            id,
            { status, entries: entry ? [expect.objectContaining(entry(id, draft, refused))] : [] },
          ]);
          expect(Object.fromEntries(http ?? [])).toEqual(Object.fromEntries(expected));
          for (const told of others)
            for (const [id, { status: answered = status, entries }] of told ?? [])
              expect({ id, status: answered, entries }).toEqual({ id, ...http?.get(id) });
          // An entity that was not found is named nowhere, and an operation without an entity names none.
          for (const [id, { entries }] of http ?? [])
            for (const { entity_id: named } of entries)
              if (status === 403) expect(named).toBe(foundBy(id, refused.drafts.get(id) as Draft)?.id);
        }
      } finally {
        await after?.();
      }
    });
  });
}
