import type { ShownAs } from '@token-vault/contracts';
import { Shown } from '../../ui/parts.tsx';

interface Cell {
  readonly transform: ShownAs;
  readonly with_reason?: ShownAs | undefined;
}

/** How data is shown to an application: now, and when it gives a reason. */
export function Access({ cell }: { readonly cell: Cell | undefined }) {
  if (cell === undefined) return null;
  const { transform, with_reason: withReason } = cell;
  return (
    <>
      {transform === 'none' ? <span className="muted">nothing</span> : <Shown transform={transform} />}
      {withReason !== undefined && (
        <span className="muted small">
          {' '}
          · with a reason <Shown transform={withReason} />
        </span>
      )}
    </>
  );
}
