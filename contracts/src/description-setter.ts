/** The caller that set the mask, the search indexes or the fingerprint expression of a token by a PATCH. */
export interface DescriptionSetter {
  readonly id: string;
  /** Whether it saw the data where the token is. What it sees in other containers is not stored, so this ends when the token is moved. */
  readonly sees: boolean;
}

const untilMoved = 'until-moved:';

/** As `set_without_sight` of the events of a token stores the setter of a field. */
export const textOfSetter = ({ id, sees }: DescriptionSetter): string => (sees ? untilMoved : '') + id;

export const setterOfText = (text: string): DescriptionSetter =>
  text.startsWith(untilMoved) ? { id: text.slice(untilMoved.length), sees: true } : { id: text, sees: false };
