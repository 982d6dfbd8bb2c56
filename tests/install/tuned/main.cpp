int normalise();
int main() { return normalise(); }
