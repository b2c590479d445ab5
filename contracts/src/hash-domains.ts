/** Domains of the tenant's blind indexes: who writes a hash and who looks for it must name the same one. */
export const hashDomains = { searchIndex: 'search_index' } as const;
