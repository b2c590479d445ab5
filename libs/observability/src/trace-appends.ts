import type { EventStore } from '@token-vault/event-store';
import type { Spans } from './spans.ts';

/** The same event store; each append is a step of the request that caused its first event. */
export function traceAppends(store: EventStore, spans: Spans): EventStore {
  if (!spans.isOn) return store;
  return {
    ...store,
    async append(...append) {
      const [, events] = append;
      const startMs = Date.now();
      const traceId = events[0]?.metadata.trace_id ?? '';
      const attributes = { 'vault.events': events.length, 'vault.event': events[0]?.type ?? '' };
      try {
        const result = await store.append(...append);
        spans.record({ name: 'append', traceId, startMs, endMs: Date.now(), attributes });
        return result;
      } catch (error) {
        spans.record({ name: 'append', traceId, startMs, endMs: Date.now(), attributes, isFailed: true });
        throw error;
      }
    },
  };
}
