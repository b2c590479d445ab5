import { useEffect, useRef, useState } from 'react';
import type { Parameters } from '../../api/client.ts';
import { useAction } from '../../api/use-query.ts';
import { formatNumber } from '../../ui/format.ts';
import { Button } from '../../ui/parts.tsx';
import { exportEntries, type Format, formats, maxExported } from './export.ts';

/** Gives the shown range as a file. */
export function ExportButtons({ parameters }: { readonly parameters: Parameters }) {
  const [progress, setProgress] = useState('');
  const abort = useRef<AbortController>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const { run, isRunning, error } = useAction(async (format: Format) => {
    abort.current = new AbortController();
    await exportEntries(parameters, format, {
      signal: abort.current.signal,
      onProgress: (done, total) => setProgress(`${formatNumber(done)} of ${formatNumber(total)}`),
    });
  });
  const told = isRunning ? progress : error && !abort.current?.signal.aborted ? error.message : '';
  return (
    <>
      <span className="muted small" role="status">
        {told}
      </span>
      {isRunning && (
        <Button isSmall onClick={() => abort.current?.abort()}>
          Stop
        </Button>
      )}
      {(Object.keys(formats) as Format[]).map((format) => (
        <Button
          key={format}
          isSmall
          disabled={isRunning}
          title={`At most ${formatNumber(maxExported)} entries. For more, use: vault audit export`}
          onClick={() => void run(format)}
        >
          Export {format.toUpperCase()}
        </Button>
      ))}
    </>
  );
}
