import { z } from 'zod';
import { defineEvent } from './registry.ts';
import { keyId } from './sealed.ts';

/**
 * Data keys that were made for an entity (as the key ring names it: `reactor:<id>`), and whose event never came. This event is written to the
 * entity's stream before the keys are destroyed, so that a slow writer that goes on meets a revision conflict. It does not change the entity
 * (ADR 2).
 */
export const KeysAbandoned = defineEvent(
  'KeysAbandoned',
  z.object({ entity: z.string(), abandoned_key_ids: z.array(keyId) }),
);

export const keyEvents = [KeysAbandoned] as const;
