import type { ProjectorOptions } from '@token-vault/projectors';
import type { Spans } from '@token-vault/observability';

/** Adds a span to a request's trace for each read model that shows its events. */
export function traceProjections(spans: Spans): Pick<ProjectorOptions, 'onShown'> {
  if (!spans.isOn) return {};
  return {
    onShown(projection, events, startMs) {
      const endMs = Date.now();
      const traceIds = new Set(events.map(({ metadata }) => metadata.trace_id));
      for (const traceId of traceIds)
        spans.record({
          name: `project ${projection}`,
          traceId,
          startMs,
          endMs,
          attributes: { 'vault.batch': events.length },
        });
    },
  };
}
