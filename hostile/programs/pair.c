// Two functions that write the same variable. With LINE, their source is said to be there.
long shared;
void one(void);
void two(void);
int main(void) { one(); two(); return 0; }
#ifdef LINE
#line 1 LINE
#endif
void one(void) { shared = 1; } void two(void) { shared = 2; }
