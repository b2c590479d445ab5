import { EventStoreUnavailableError } from '@token-vault/event-store';
import { expect, it, onTestFinished } from 'vitest';
import { startTinyApp } from './tiny-app.ts';

it('a lost store is logged once for any number of failing requests', async () => {
  const getToken = () => Promise.reject(new EventStoreUnavailableError('down'));
  const app = await startTinyApp({ handlers: { getToken } });
  onTestFinished(() => app.stop());
  const replies = await Promise.all(Array.from({ length: 20 }, () => app.send('/tokens/abc')));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([503]));
  const told = app.lines.filter(({ level }) => Number(level) >= 40);
  expect(told).toEqual([
    expect.objectContaining({ status: 503, error_code: 'event_store_unavailable', level: 40 }),
  ]);
  const traced = app.lines.map(({ trace_id }) => trace_id);
  for (const { headers } of replies) expect(traced).toContain(headers['svc-trace-id']);
});
