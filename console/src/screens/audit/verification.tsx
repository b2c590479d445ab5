import { useEffect, useRef, useState } from 'react';
import type { LogVerification } from '@token-vault/contracts';
import { call, withQuery } from '../../api/client.ts';
import { useAction } from '../../api/use-query.ts';
import { formatNumber, formatTime, plural } from '../../ui/format.ts';
import { Button, Card } from '../../ui/parts.tsx';
import { Failure, Note } from '../../ui/states.tsx';

interface Verified {
  readonly events: number;
  readonly checkpoints: number;
  readonly unsigned: number;
  readonly signedAt: string | undefined;
  readonly findings: LogVerification['findings'];
  /** Findings that the answers left out. */
  readonly more: number;
  readonly isDone: boolean;
}

const nothing: Verified = {
  events: 0,
  checkpoints: 0,
  unsigned: 0,
  signedAt: undefined,
  findings: [],
  more: 0,
  isDone: false,
};

const add = (before: Verified, part: LogVerification): Verified => ({
  events: before.events + part.events,
  checkpoints: before.checkpoints + part.checkpoints,
  unsigned: part.unsigned_events,
  signedAt: part.signed_at ?? before.signedAt,
  findings: [...before.findings, ...part.findings],
  more: before.more + (part.more_findings ?? 0),
  isDone: part.cursor === undefined,
});

/** Compares the log with its signed checkpoints, part by part, up to `until`. */
function useVerification(until: Date) {
  const [verified, setVerified] = useState<Verified>();
  const abort = useRef<AbortController>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const verify = useAction(async () => {
    const { signal } = (abort.current = new AbortController());
    let [sum, cursor]: [Verified, string | undefined] = [nothing, undefined];
    while (!sum.isDone) {
      const path = withQuery('/logs/verification', { end_date: until.toISOString(), cursor });
      const part: LogVerification = await call<LogVerification>('GET', path, { signal });
      sum = add(sum, part);
      cursor = part.cursor;
      setVerified(sum);
    }
  });
  return {
    verified,
    isRunning: verify.isRunning,
    error: abort.current?.signal.aborted === true ? undefined : verify.error,
    stop: () => abort.current?.abort(),
    start: () => {
      setVerified(nothing);
      void verify.run();
    },
  };
}

export function Verification({ until }: { readonly until: Date }) {
  const { verified, isRunning, error, start, stop } = useVerification(until);
  return (
    <Card
      title="Verification"
      actions={
        <>
          {isRunning && (
            <Button isSmall onClick={stop}>
              Stop
            </Button>
          )}
          <Button isSmall disabled={isRunning} onClick={start}>
            Verify up to here
          </Button>
        </>
      }
    >
      <div role="status">
        {verified ? (
          <Outcome verified={verified} isRunning={isRunning} />
        ) : (
          <p className="muted small">
            The events of this log, from its beginning to {formatTime(until.toISOString(), 'minute')} UTC, are
            compared with the signatures of the vault.
          </p>
        )}
      </div>
      {error && <Failure error={error} />}
    </Card>
  );
}

function Outcome({ verified, isRunning }: { readonly verified: Verified; readonly isRunning: boolean }) {
  const { events, checkpoints, unsigned, signedAt, findings, isDone } = verified;
  const shown = findings.slice(0, 50);
  const more = findings.length - shown.length + verified.more;
  const counts = `${plural(events, 'event', 'events')} under ${plural(checkpoints, 'checkpoint', 'checkpoints')}`;
  const upTo = signedAt === undefined ? '' : `, signed up to ${formatTime(signedAt)} UTC`;
  if (findings.length > 0)
    return (
      <Note tone="bad">
        The log is not as it was signed: {counts}
        {upTo}.
        <ul aria-label="Findings">
          {shown.map(({ position, problem }) => (
            <li key={`${position} ${problem}`}>
              Position {position}: {problem}
            </li>
          ))}
        </ul>
        {more > 0 && <p>{formatNumber(more)} more.</p>}
      </Note>
    );
  if (isRunning || !isDone)
    return (
      <p className="muted">
        {isRunning ? 'Verifying' : 'Stopped'}: {counts}
        {upTo}, nothing differs.
      </p>
    );
  return (
    <Note tone="ok">
      The log is as it was signed: {counts}
      {upTo}. {unsigned > 0 && `${plural(unsigned, 'newer event is', 'newer events are')} not signed yet.`}
    </Note>
  );
}
