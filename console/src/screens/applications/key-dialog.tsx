import { useState } from 'react';
import { Dialog } from '../../ui/dialog.tsx';
import { Button } from '../../ui/parts.tsx';
import { Note } from '../../ui/states.tsx';

/** Shows a new key once. When it closes, the key is nowhere in the page. */
export function KeyDialog({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(secret).then(
      () => setCopied(true),
      () => undefined,
    );
  return (
    <Dialog title="New key" isKept onClose={onClose}>
      <Note tone="warn">This key is shown once. Copy it now: the vault keeps only a hash of it.</Note>
      <div className="secret">{secret}</div>
      <div className="row end">
        <span className="muted small" role="status">
          {isCopied ? 'Copied' : ''}
        </span>
        <Button onClick={() => void copy()}>Copy</Button>
        <Button look="primary" onClick={onClose}>
          I have the key
        </Button>
      </div>
    </Dialog>
  );
}
