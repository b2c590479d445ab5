import { useState } from 'react';
import { Button, Card, Field, TextField } from '../../ui/parts.tsx';
import { Note } from '../../ui/states.tsx';
import { verifyCertificate, type Verified } from './verify-certificate.ts';

/** The certificate that the token was erased, verified by this browser. */
export function Certificate({ tokenId }: { readonly tokenId: string }) {
  const [text, setText] = useState('');
  const [publicKey, setPublicKey] = useState('');
  const [verified, setVerified] = useState<Verified>();
  const verify = async () => setVerified(await verifyCertificate(text, publicKey, tokenId));
  return (
    <Card title="Erasure certificate">
      <div className="form">
        <p className="muted small">
          <code>vault erasure certificate</code> makes it after the token was destroyed. This browser checks
          its signature; the vault is not asked.
        </p>
        <Field label="Certificate (JSON)">
          {(id) => (
            <textarea
              id={id}
              className="input"
              rows={4}
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
        </Field>
        <TextField
          label="Public key of the tenant"
          hint="From a source that you trust: vault audit public-key"
          value={publicKey}
          onChange={setPublicKey}
        />
        {!isSecureContext && (
          <Note tone="warn">Browsers verify signatures only on pages that come over https.</Note>
        )}
        <div className="row">
          <Button
            disabled={!isSecureContext || text.trim() === '' || publicKey.trim() === ''}
            onClick={() => void verify()}
          >
            Verify
          </Button>
        </div>
        {verified && <Note tone={verified.isValid ? 'ok' : 'bad'}>{verified.says}</Note>}
      </div>
    </Card>
  );
}
