import { useState } from 'react';
import type { Token } from '@token-vault/contracts';
import { tokenTypes } from '@token-vault/contracts/names';
import type { Page } from '../../api/client.ts';
import { useQuery } from '../../api/use-query.ts';
import { shortId } from '../../ui/format.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Button, SelectField } from '../../ui/parts.tsx';
import { Note } from '../../ui/states.tsx';
import { type Column, PagedTable } from '../../ui/table.tsx';
import { Data } from '../tokens/data.tsx';
import { listPathOf } from '../tokens/query.ts';

interface TokenPickerProps {
  readonly onPick: (id: string) => void;
  readonly onClose: () => void;
}

const columnsOf = (onPick: (id: string) => void): Column<Token>[] => [
  { name: 'Id', isNarrow: true, show: ({ id }) => <span title={id}>{shortId(id)}</span> },
  { name: 'Data', show: (token) => <Data token={token} /> },
  {
    name: 'Choose',
    show: ({ id }) => (
      <Button isSmall aria-label={`Choose ${id}`} onClick={() => onPick(id)}>
        Choose
      </Button>
    ),
  },
];

/** Chooses a token, whose id is put in as plain text. */
export function TokenPicker({ onPick, onClose }: TokenPickerProps) {
  const [type, setType] = useState('');
  const [page, setPage] = useState(1);
  const tokens = useQuery<Page<Token>>(listPathOf({ type }, { key: '', value: '' }, page));
  return (
    <Dialog title="Choose a token" isWide onClose={onClose}>
      <div className="stack-tight">
        <Note>
          The code is given the id. What it reads by req.svc is shown to it masked, as here. An expression
          that would give it the data is refused to a session of the console.
        </Note>
        <SelectField
          label="Type of the token"
          value={type}
          choices={[{ value: '', label: 'Any' }, ...tokenTypes.map((each) => ({ value: each, label: each }))]}
          onChange={(value) => {
            setType(value);
            setPage(1);
          }}
        />
        <PagedTable
          label="Tokens to choose from"
          query={tokens}
          onPage={setPage}
          keyOf={({ id }) => id}
          columns={columnsOf(onPick)}
          empty="There is no token of this type."
        />
        <div className="row end">
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </div>
    </Dialog>
  );
}
