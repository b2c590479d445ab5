import { type FormEvent, useState } from 'react';
import { Button, Card, TextField } from '../../ui/parts.tsx';
import { Explained } from './explained.tsx';

/** Which rule decides about a token. */
export function Explain({ applicationId }: { readonly applicationId: string }) {
  const [draft, setDraft] = useState('');
  const [tokenId, setTokenId] = useState('');
  const ask = (event: FormEvent) => {
    event.preventDefault();
    setTokenId(draft.trim());
  };
  return (
    <Card title="Explain">
      <div className="stack-tight">
        <form className="form" onSubmit={ask} aria-label="Explain access to a token">
          <TextField
            label="Token id"
            hint="Which rule decides what this application sees of it?"
            value={draft}
            onChange={setDraft}
          />
          <div>
            <Button type="submit" disabled={draft.trim().length < 3}>
              Explain
            </Button>
          </div>
        </form>
        {tokenId !== '' && <Explained applicationId={applicationId} tokenId={tokenId} />}
      </div>
    </Card>
  );
}
